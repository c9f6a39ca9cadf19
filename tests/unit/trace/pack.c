/* SPDX-License-Identifier: MIT */
/* tests/unit/trace/pack.c -- blocks: what is packed comes back; every bit of a header and of a payload is looked at; a
 * block claims no more memory than it may. */
#include "trace/format.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void packs_and_unpacks(void **state)
{
    (void)state;
    static uint8_t raw[20000], back[sizeof raw];
    qn_error err;
    qn_trace_packer *p = NULL;
    assert_int_equal(qn__trace_packer_create(&p, &err), QN_OK);
    for (int kind = 0; kind < 3; kind++) {
        /* small numbers; noise; zeros, which would unpack to more than a block may */
        for (size_t i = 0; i < sizeof raw; i++)
            raw[i] = kind == 0 ? (uint8_t)(i * i * i % 1009 & 3) : kind == 1 ? (uint8_t)(i * 2654435761u >> 13) : 0;
        for (size_t n = 0; n <= sizeof raw; n += n < 100 ? 9 : 6633) {
            qn_str out = {0};
            qn_trace_block in = {.kind = 5, .lane = 7, .count = 3, .dropped = UINT64_C(1) << 40}, b;
            const size_t n_first = kind == 0 ? n : n / 3; /* the others are in the stream as they are */
            assert_true(qn__trace_pack(p, &in, raw, n, n_first, &out));
            assert_null(qn__trace_block_at((const uint8_t *)out.data, out.len, 0, &b));
            assert_int_equal(b.kind, 5);
            assert_int_equal(b.lane, 7);
            assert_int_equal(b.count, 3);
            assert_true(b.dropped == UINT64_C(1) << 40);
            assert_int_equal(b.raw_bytes, n);
            assert_true(b.raw_bytes <= b.packed_bytes * QN_TRACE_MAX_RATIO);
            bool nomem;
            assert_true(qn__trace_unpack(&b, (const uint8_t *)out.data + QN_TRACE_BLOCK_BYTES, back, &nomem));
            assert_memory_equal(back, raw, n);
            if (kind == 0 && n > 1000) assert_true(b.method == 1 && b.packed_bytes < n / 2);
            if (kind == 2 && n > 1000) assert_true(b.method == 1 && b.packed_bytes > n / 2 && b.packed_bytes < n);
            for (size_t at = 0; at < out.len; at += at < 60 ? 1 : out.len / 50 + 1) {
                out.data[at] ^= 1;
                assert_non_null(qn__trace_block_at((const uint8_t *)out.data, out.len, 0, &b));
                out.data[at] ^= 1;
                assert_non_null(qn__trace_block_at((const uint8_t *)out.data, at, 0, &b));
            }
            qn__str_deinit(&out);
        }
    }
    qn__trace_packer_destroy(p);
}

static void numbers(void **state)
{
    (void)state;
    static const uint64_t some[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, INT64_MAX, UINT64_MAX};
    qn_str s = {0};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        qn__put_varint(&s, some[i]);
        qn__put_signed(&s, (int64_t)some[i]);
        qn__put_signed(&s, -(int64_t)(some[i] / 2));
    }
    qn__put_text(&s, "a text", 6);
    qn_trace_cursor c = {(const uint8_t *)s.data, (const uint8_t *)s.data + s.len, false};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        assert_true(qn__trace_get(&c) == some[i]);
        assert_true(qn__trace_get_signed(&c) == (int64_t)some[i]);
        assert_true(qn__trace_get_signed(&c) == -(int64_t)(some[i] / 2));
    }
    size_t n;
    assert_memory_equal(qn__trace_get_text(&c, &n), "a text", 6);
    assert_int_equal(n, 6);
    assert_true(!c.failed && c.p == c.end);
    assert_true(qn__trace_get(&c) == 0 && c.failed);
    qn__str_deinit(&s);
    /* one bit too many; a text longer than what is left; more than is allowed */
    static const uint8_t wide[] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 2}, text[] = {5, 'a', 'b'};
    c = (qn_trace_cursor){wide, wide + sizeof wide, false};
    assert_true(qn__trace_get(&c) == 0 && c.failed);
    c = (qn_trace_cursor){text, text + sizeof text, false};
    qn__trace_get_text(&c, &n);
    assert_true(c.failed && n == 0);
    c = (qn_trace_cursor){text, text + sizeof text, false};
    assert_true(qn__trace_get_up_to(&c, 4) == 0 && c.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packs_and_unpacks), cmocka_unit_test(numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
