/* SPDX-License-Identifier: MIT */
/* tests/unit/base/mem.c -- the allocator hook, headers, overflow, counters. */
#include "base/mem.h"
#include "base/metrics.h"
#include "failing.h"

static void checked_sizes(void **state)
{
    (void)state;
    size_t r = 7;
    assert_true(qn__mul_size(SIZE_MAX / 2, 2, &r));
    assert_true(r == SIZE_MAX - 1);
    assert_false(qn__mul_size(SIZE_MAX / 2 + 1, 2, &r));
    assert_true(r == SIZE_MAX - 1);
    assert_true(qn__mul_size(0, SIZE_MAX, &r) && r == 0);
    assert_true(qn__add_size(SIZE_MAX - 1, 1, &r) && r == SIZE_MAX);
    assert_false(qn__add_size(SIZE_MAX, 1, &r));
    assert_int_equal(qn__align_up(0, 64), 0);
    assert_int_equal(qn__align_up(1, 64), 64);
    assert_int_equal(qn__align_up(64, 64), 64);
    assert_int_equal(qn__align_up(65, 256), 256);
}

static void alignment(void **state)
{
    (void)state;
    books_open(-1);
    static const size_t sizes[] = {0, 1, 15, 64, 100, 4096, 100000};
    for (size_t align = 1; align <= 8192; align *= 2) {
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
            char *p = qn__alloc_aligned(sizes[i], align);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % align, 0);
            assert_int_equal((uintptr_t)p % QN_ALIGN_CPU, 0);
            memset(p, 1, sizes[i]); /* every byte is ours */
            qn__free(p);
        }
    }
    qn__free(NULL);
    qn_free(NULL);
    books_close();
}

static void absurd_sizes(void **state)
{
    (void)state;
    books_open(-1);
    assert_null(qn__alloc(SIZE_MAX));
    assert_null(qn__alloc(SIZE_MAX - 10));
    assert_null(qn__alloc((size_t)PTRDIFF_MAX));
    assert_null(qn__calloc(SIZE_MAX / 2, 3));
    assert_null(qn__calloc(3, SIZE_MAX / 2));
    assert_int_equal(books.n_alloc, 0); /* refused before the hook is asked */
    books_close();
}

static void zeroed(void **state)
{
    (void)state;
    books_open(-1); /* whose memory is full of 0xA5 */
    unsigned char *p = qn__calloc(33, 7);
    for (int i = 0; i < 33 * 7; i++) assert_int_equal(p[i], 0);
    qn__free(p);
    char *s = qn__strdup("na\xc3\xafve");
    assert_string_equal(s, "na\xc3\xafve");
    qn_free(s);
    s = qn__strdup("");
    assert_string_equal(s, "");
    qn_free(s);
    books_close();
}

static void reallocation(void **state)
{
    (void)state;
    books_open(-1);
    unsigned char *p = qn__realloc(NULL, 10), *q;
    for (int i = 0; i < 10; i++) p[i] = (unsigned char)i;
    p = qn__realloc(p, 5000);
    for (int i = 0; i < 10; i++) assert_int_equal(p[i], i);
    memset(p, 3, 5000);
    q = qn__realloc(p, 4000); /* a small cut stays in place */
    assert_ptr_equal(p, q);
    q = qn__realloc(q, 100); /* a deep one gives memory back */
    assert_true(books.bytes < 1000);
    for (int i = 0; i < 100; i++) assert_int_equal(q[i], 3);
    assert_null(qn__realloc(q, SIZE_MAX));
    assert_int_equal(q[99], 3); /* still valid */
    qn__free(q);

    p = qn__alloc_aligned(1, 4096);
    p = qn__realloc(p, 10000);
    assert_int_equal((uintptr_t)p % 4096, 0);
    qn__free(p);
    books_close();
}

static void failures(void **state)
{
    (void)state;
    books_open(0);
    assert_null(qn__alloc(1));
    books_open(0);
    assert_null(qn__calloc(1, 1));
    books_open(0);
    assert_null(qn__strdup("x"));
    books_open(1);
    char *p = qn__strdup("kept"), *q = qn__realloc(p, 100000);
    assert_null(q);
    assert_string_equal(p, "kept");
    qn__free(p);
    books_close();
}

static void counted(void **state)
{
    (void)state;
    qn_metrics before, after;
    books_open(-1);
    qn_metrics_reset();
    qn_metrics_snapshot(&before);
    assert_int_equal(before.allocs, 0);
    char *a = qn__alloc(1000), *b = qn__alloc_aligned(50, 256);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.allocs, 2);
    assert_int_equal(after.frees, 0);
    assert_int_equal(after.live_bytes - before.live_bytes, (uint64_t)books.bytes); /* our books and theirs */
    assert_int_equal(after.peak_bytes, after.live_bytes);
    const uint64_t peak = after.peak_bytes;
    qn__free(a);
    qn__free(b);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.frees, 2);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_int_equal(after.peak_bytes, peak);
    books.countdown = 0;
    assert_null(qn__alloc(1));
    qn_metrics_snapshot(&after);
    assert_int_equal(after.allocs, 2); /* a failed one is none */
    books_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_sizes), cmocka_unit_test(alignment),    cmocka_unit_test(absurd_sizes),
        cmocka_unit_test(zeroed),        cmocka_unit_test(reallocation), cmocka_unit_test(failures),
        cmocka_unit_test(counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
