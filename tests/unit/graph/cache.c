/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/cache.c -- the cache of compiled graphs: hits, misses, eviction by least recent use, ownership;
 * against a list. */
#include "common.h"
#include "base/metrics.h"
#include "unit/base/failing.h"

static int destroyed[256];

static void destroy(void *value) { destroyed[(int)(intptr_t)value]++; }
static void *value_of(int i) { return (void *)(intptr_t)i; } /* i from 1 */

static qn_cache *cache_new(int capacity)
{
    qn_cache *c = NULL;
    memset(destroyed, 0, sizeof destroyed);
    OK(qn__cache_create(capacity, destroy, &c, err));
    return c;
}

static void put(qn_cache *c, int key, int value) { OK(qn__cache_put(c, &key, sizeof key, value_of(value), err)); }
static int find(qn_cache *c, int key) { return (int)(intptr_t)qn__cache_find(c, &key, sizeof key); }

static void test_hits_and_misses(void **state)
{
    (void)state;
    qn_metrics before, after;
    qn_cache *c = cache_new(4);
    qn_metrics_snapshot(&before);
    assert_int_equal(find(c, 7), 0);
    put(c, 7, 1);
    assert_int_equal(find(c, 7), 1);
    assert_int_equal(find(c, 8), 0);
    assert_int_equal(find(c, 7), 1);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.plan_cache_hits - before.plan_cache_hits, 2);
    assert_int_equal(after.plan_cache_misses - before.plan_cache_misses, 2);
    assert_int_equal(after.allocs - before.allocs, 1); /* the entry: finding allocates nothing */
    qn__cache_destroy(c);
    assert_int_equal(destroyed[1], 1);
    qn__cache_destroy(NULL);
}

/* Keys are compared whole, byte by byte, of any length. */
static void test_keys(void **state)
{
    (void)state;
    qn_cache *c = cache_new(16);
    static const char key[] = "abcd\0efg";
    for (size_t n = 0; n < sizeof key; n++) OK(qn__cache_put(c, key, n, value_of((int)n + 1), err));
    for (size_t n = 0; n < sizeof key; n++) assert_ptr_equal(qn__cache_find(c, key, n), value_of((int)n + 1));
    assert_null(qn__cache_find(c, "abcd\0efh", 8));
    assert_ptr_equal(qn__cache_find(c, NULL, 0), value_of(1));
    OK(qn__cache_put(c, key, 3, value_of(100), err)); /* replaces */
    assert_int_equal(destroyed[4], 1);
    assert_ptr_equal(qn__cache_find(c, key, 3), value_of(100));
    OK(qn__cache_put(c, key, 3, value_of(100), err)); /* itself again: still alive */
    assert_int_equal(destroyed[100], 0);
    qn__cache_clear(c);
    assert_int_equal(destroyed[100], 1);
    assert_null(qn__cache_find(c, key, 3));
    put(c, 1, 50);
    assert_int_equal(find(c, 1), 50);
    qn__cache_destroy(c);
    assert_int_equal(destroyed[50], 1);
}

static void test_least_recently_used(void **state)
{
    (void)state;
    qn_cache *c = cache_new(3);
    put(c, 1, 1), put(c, 2, 2), put(c, 3, 3);
    assert_int_equal(find(c, 1), 1); /* now 2 is the oldest */
    put(c, 4, 4);
    assert_int_equal(destroyed[2], 1);
    assert_int_equal(find(c, 2), 0);
    assert_int_equal(find(c, 3), 3);
    put(c, 5, 5);
    assert_int_equal(destroyed[1], 1);
    put(c, 4, 6); /* replacing makes it the newest, and no one else leaves */
    assert_int_equal(destroyed[4], 1);
    put(c, 7, 7);
    assert_int_equal(destroyed[3], 1);
    assert_true(find(c, 4) == 6 && find(c, 5) == 5 && find(c, 7) == 7);
    qn__cache_destroy(c);
}

/* Against an array kept in order of use. */
static void test_against_a_list(void **state)
{
    (void)state;
    enum { CAPACITY = 5, KEYS = 12 };
    qn_cache *c = cache_new(CAPACITY);
    int keys[CAPACITY], values[CAPACITY], n = 0, expected[256] = {0};
    uint32_t seed = 1;
    for (int step = 0; step < 20000; step++) {
        seed = seed * 1664525u + 1013904223u;
        const int key = (int)(seed >> 16) % KEYS, value = (int)(seed >> 8 & 255);
        int at = 0;
        while (at < n && keys[at] != key) at++;
        if (seed >> 31 || value == 0) {
            assert_int_equal(find(c, key), at < n ? values[at] : 0);
            if (at == n) continue;
        } else {
            put(c, key, value);
            if (at < n)
                expected[values[at]] += values[at] != value;
            else if (n == CAPACITY)
                expected[values[--n]]++;
            if (at >= n) at = n++, keys[at] = key;
            values[at] = value;
        }
        const int k = keys[at], v = values[at]; /* to the front */
        memmove(keys + 1, keys, (size_t)at * sizeof *keys);
        memmove(values + 1, values, (size_t)at * sizeof *values);
        keys[0] = k, values[0] = v;
    }
    assert_memory_equal(destroyed, expected, sizeof destroyed);
    qn__cache_destroy(c);
}

static void test_bad_calls(void **state)
{
    (void)state;
    qn_cache *c = NULL;
    qn_error e = {0};
    assert_int_equal(qn__cache_create(0, destroy, &c, &e), QN_STATUS_invalid);
    assert_string_equal(e.text, "a cache of 0 entries, 1 to 1048576 expected");
    assert_int_equal(qn__cache_create(-1, destroy, &c, NULL), QN_STATUS_invalid);
    assert_int_equal(qn__cache_create(1 << 30, destroy, &c, NULL), QN_STATUS_invalid);
    assert_null(c);
    c = cache_new(1);
    assert_int_equal(qn__cache_put(c, "k", 1, NULL, &e), QN_STATUS_invalid);
    static char huge[(1 << 20) + 1];
    assert_int_equal(qn__cache_put(c, huge, sizeof huge, value_of(9), &e), QN_STATUS_limit);
    assert_string_equal(e.text, "a cache key of 1048577 bytes, at most 1048576 expected");
    assert_int_equal(destroyed[9], 1); /* taken over in any case */
    qn__cache_destroy(c);
}

static void test_no_memory(void **state)
{
    (void)state;
    memset(destroyed, 0, sizeof destroyed);
    for (long fail_at = 0; fail_at < 4; fail_at++) {
        books_open(fail_at);
        qn_cache *c = NULL;
        if (qn__cache_create(2, destroy, &c, NULL) == QN_OK) {
            int kept = 0;
            for (int i = 1; i <= 2; i++) {
                qn_error e = {0};
                const qn_status status = qn__cache_put(c, &i, sizeof i, value_of(i), &e);
                assert_true(status == QN_OK || status == QN_STATUS_nomem);
                kept += status == QN_OK;
                assert_int_equal(find(c, i), status == QN_OK ? i : 0);
            }
            assert_int_equal(kept, fail_at < 3 ? 1 : 2);
        } else {
            assert_int_equal(fail_at, 0);
        }
        qn__cache_destroy(c);
        books_close();
    }
    assert_true(destroyed[1] == 3 && destroyed[2] == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hits_and_misses),     cmocka_unit_test(test_keys),
        cmocka_unit_test(test_least_recently_used), cmocka_unit_test(test_against_a_list),
        cmocka_unit_test(test_bad_calls),           cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
