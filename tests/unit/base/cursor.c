/* SPDX-License-Identifier: MIT */
/* tests/unit/base/cursor.c -- bounded reads in both byte orders, and what a failure leaves behind. */
#include "base/cursor.h"
#include "failing.h"

#define HOST_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

/* 7f 0102, then 03040506 and 0708090a0b0c0d0e in big-endian order */
static const uint8_t big[] = {0x7f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};

static int byte_of(qn_cursor *c)
{
    const uint8_t *p = qn__get_bytes(c, 1);
    return p != NULL ? *p : -1;
}

static void big_endian(void **state)
{
    (void)state;
    qn_cursor c;
    qn__cursor_init(&c, big, sizeof big);
    c.swap = HOST_LITTLE;
    assert_int_equal(byte_of(&c), 0x7f);
    assert_true(qn__cursor_skip(&c, 2));
    assert_int_equal(qn__get_u32(&c), 0x03040506);
    assert_true(qn__get_u64(&c) == UINT64_C(0x0708090a0b0c0d0e));
    assert_int_equal(qn__cursor_left(&c), 0);
    assert_false(c.failed);
}

static void little_endian(void **state)
{
    (void)state;
    static const uint8_t little[] = {6, 5, 4, 3, 14, 13, 12, 11, 10, 9, 8, 7};
    qn_cursor c;
    qn__cursor_init(&c, little, sizeof little);
    c.swap = !HOST_LITTLE;
    assert_int_equal(qn__get_u32(&c), 0x03040506);
    assert_true(qn__get_u64(&c) == UINT64_C(0x0708090a0b0c0d0e));
}

static void first_failure_sticks(void **state)
{
    (void)state;
    qn_cursor c;
    qn__cursor_init(&c, big, 6);
    assert_true(qn__cursor_skip(&c, 3));
    assert_int_equal(qn__get_u32(&c), 0);
    assert_true(c.failed);
    assert_int_equal(c.pos, 3);
    assert_int_equal(c.fail_pos, 3);
    assert_int_equal(c.fail_need, 4);
    assert_int_equal(byte_of(&c), -1); /* although the byte is there */
    assert_true(qn__get_u64(&c) == 0);
    assert_null(qn__get_bytes(&c, 0));
    assert_false(qn__cursor_seek(&c, 0));
    assert_false(qn__cursor_skip(&c, 1));
    assert_int_equal(c.pos, 3);
    assert_int_equal(c.fail_need, 4); /* of the first */
}

static void every_get_at_every_end(void **state)
{
    (void)state;
    for (size_t size = 0; size < 9; size++) {
        qn_cursor c;
        uint8_t exact[8]; /* so that AddressSanitizer sees a byte too many */
        memcpy(exact, big, 8);
        uint8_t *heap = malloc(size != 0 ? size : 1);
        memcpy(heap, exact, size);
        qn__cursor_init(&c, heap, size);
        byte_of(&c);
        assert_int_equal(c.failed, size < 1);
        qn__cursor_init(&c, heap, size);
        qn__get_u32(&c);
        assert_int_equal(c.failed, size < 4);
        qn__cursor_init(&c, heap, size);
        qn__get_u64(&c);
        assert_int_equal(c.failed, size < 8);
        free(heap);
    }
}

static void huge_requests(void **state)
{
    (void)state;
    qn_cursor c;
    qn__cursor_init(&c, big, sizeof big);
    byte_of(&c);
    assert_null(qn__get_bytes(&c, UINT64_MAX)); /* pos + n would wrap */
    assert_int_equal(c.fail_pos, 1);
    assert_true(c.fail_need == SIZE_MAX);
    qn__cursor_init(&c, big, sizeof big);
    assert_true(qn__cursor_seek(&c, sizeof big)); /* the very end is a place */
    assert_int_equal(qn__cursor_left(&c), 0);
    assert_non_null(qn__get_bytes(&c, 0));
    assert_true(qn__cursor_seek(&c, 2));
    assert_int_equal(byte_of(&c), 2);
    assert_false(qn__cursor_seek(&c, sizeof big + 1));
    assert_true(c.failed);
    assert_int_equal(c.fail_pos, sizeof big + 1);
    assert_int_equal(c.pos, 3);
}

static void empty_range(void **state)
{
    (void)state;
    qn_cursor c;
    qn__cursor_init(&c, NULL, 0);
    assert_non_null(qn__get_bytes(&c, 0));
    assert_true(qn__cursor_seek(&c, 0));
    assert_false(c.failed);
    assert_int_equal(byte_of(&c), -1);
    assert_true(c.failed);
}

static void swapped_arrays(void **state)
{
    (void)state;
    uint8_t buf[25];
    for (int i = 0; i < 25; i++) buf[i] = (uint8_t)i;
    qn__swap_array(buf + 1, 3, 8); /* unaligned */
    for (int i = 0; i < 24; i++) assert_int_equal(buf[1 + i], 1 + (i / 8) * 8 + (7 - i % 8));
    qn__swap_array(buf + 1, 3, 8);
    for (int i = 0; i < 25; i++) assert_int_equal(buf[i], i);
    qn__swap_array(buf, 2, 2);
    assert_memory_equal(buf, ((uint8_t[]){1, 0, 3, 2, 4}), 5);
    qn__swap_array(buf, 1, 4);
    assert_memory_equal(buf, ((uint8_t[]){2, 3, 0, 1, 4}), 5);
    qn__swap_array(buf, 0, 4);
    qn__swap_array(NULL, 0, 2);
    assert_memory_equal(buf, ((uint8_t[]){2, 3, 0, 1, 4}), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(big_endian),           cmocka_unit_test(little_endian),
        cmocka_unit_test(first_failure_sticks), cmocka_unit_test(every_get_at_every_end),
        cmocka_unit_test(huge_requests),        cmocka_unit_test(empty_range),
        cmocka_unit_test(swapped_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
