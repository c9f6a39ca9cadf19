/* SPDX-License-Identifier: MIT */
/* tests/unit/base/pool.c -- size classes, limits on idle memory, failures, threads. */
#include "base/mem.h"
#include "base/metrics.h"
#include "base/poison.h"
#include "base/thread.h"
#include "failing.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static qn_pool_stats stats_of(qn_pool *pool)
{
    qn_pool_stats s;
    qn__pool_get_stats(pool, &s);
    return s;
}

static void hit_after_put(void **state)
{
    (void)state;
    static const struct {
        size_t size, class_bytes;
    } cases[] = {
        {1, 128 * KIB},         {128 * KIB, 128 * KIB}, {128 * KIB + 1, 512 * KIB},
        {512 * KIB, 512 * KIB}, {512 * KIB + 1, MIB},   {MIB, MIB},
        {MIB + 1, 4 * MIB},     {4 * MIB, 4 * MIB},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        books_open(-1);
        qn_pool *pool = qn__pool_create(0);
        const size_t size = cases[i].size;
        unsigned char *p = qn__pool_get(pool, size);
        assert_int_equal((uintptr_t)p % QN_ALIGN_GPU, 0);
        memset(p, 1, size);
        qn__pool_put(pool, p, size);
        assert_int_equal(stats_of(pool).idle_bytes, cases[i].class_bytes);
        const long n = books.n_alloc;
        const uint64_t hits = QN_METRIC_READ(pool_hits);
        unsigned char *q = qn__pool_get(pool, cases[i].class_bytes); /* any size of the class */
        assert_ptr_equal(p, q);
        memset(q, 2, cases[i].class_bytes);
        assert_int_equal(books.n_alloc, n);
        assert_int_equal(QN_METRIC_READ(pool_hits) - hits, 1);
        const qn_pool_stats s = stats_of(pool);
        assert_true(s.hits == 1 && s.misses == 1 && s.direct == 0 && s.idle_bytes == 0);
        qn__pool_put(pool, q, size);
        qn__pool_destroy(pool);
        books_close();
    }
}

static void large_goes_direct(void **state)
{
    (void)state;
    books_open(-1);
    qn_pool *pool = qn__pool_create(0);
    const long long before = books.bytes;
    char *p = qn__pool_get(pool, 4 * MIB + 1);
    memset(p, 1, 4 * MIB + 1);
    qn__pool_put(pool, p, 4 * MIB + 1);
    assert_true(books.bytes == before); /* nothing is kept */
    const qn_pool_stats s = stats_of(pool);
    assert_true(s.direct == 1 && s.hits == 0 && s.misses == 0 && s.idle_bytes == 0);
    assert_null(qn__pool_get(pool, SIZE_MAX));
    qn__pool_put(pool, NULL, 100);
    qn__pool_destroy(pool);
    qn__pool_destroy(NULL);
    books_close();
}

static void idle_is_limited(void **state)
{
    (void)state;
    books_open(-1);
    qn_pool *pool = qn__pool_create(300 * KIB);
    void *p[4];
    for (int i = 0; i < 4; i++) p[i] = qn__pool_get(pool, 100);
    for (int i = 0; i < 4; i++) qn__pool_put(pool, p[i], 100);
    assert_int_equal(stats_of(pool).idle_bytes, 256 * KIB); /* two of four */
    void *big = qn__pool_get(pool, MIB);
    qn__pool_put(pool, big, MIB); /* one alone is above the limit */
    assert_int_equal(stats_of(pool).idle_bytes, 256 * KIB);
    qn__pool_destroy(pool);
    books_close();
}

static void last_in_first_out(void **state)
{
    (void)state;
    qn_pool *pool = qn__pool_create(0);
    void *a = qn__pool_get(pool, 1), *b = qn__pool_get(pool, 1);
    qn__pool_put(pool, a, 1);
    qn__pool_put(pool, b, 1);
    assert_ptr_equal(qn__pool_get(pool, 1), b);
    assert_ptr_equal(qn__pool_get(pool, 1), a);
    qn__pool_put(pool, a, 1);
#ifdef QN_HAVE_ASAN
    assert_int_equal(__asan_address_is_poisoned((char *)a + 64), 1); /* use after put is caught */
#endif
    qn__pool_put(pool, b, 1);
    qn__pool_destroy(pool);
}

static void failures(void **state)
{
    (void)state;
    books_open(0);
    assert_null(qn__pool_create(0));
    books_close();
    books_open(1);
    qn_pool *pool = qn__pool_create(0);
    assert_null(qn__pool_get(pool, 1));
    void *p = qn__pool_get(pool, 1); /* works again when there is memory */
    assert_non_null(p);
    books.countdown = 0;
    assert_null(qn__pool_get(pool, 5 * MIB));
    qn__pool_put(pool, p, 1);
    books.countdown = 0;
    p = qn__pool_get(pool, 1); /* a hit needs no memory */
    assert_non_null(p);
    qn__pool_put(pool, p, 1);
    qn__pool_destroy(pool);
    books_close();
}

static void churn(void *ctx, int member, int n_members)
{
    (void)n_members;
    qn_pool *pool = ctx;
    uint32_t r = (uint32_t)member * 2654435761u + 1;
    void *held[3] = {NULL};
    size_t size[3] = {0};
    for (int i = 0; i < 600; i++) {
        r = r * 1664525u + 1013904223u;
        const int slot = (int)(r >> 20) % 3;
        if (held[slot] != NULL) {
            unsigned char *p = held[slot];
            if (p[0] != member || p[size[slot] - 1] != member) abort(); /* somebody else has it too */
            qn__pool_put(pool, p, size[slot]);
            held[slot] = NULL;
        } else {
            size[slot] = (r >> 8) % (600 * KIB) + 1;
            unsigned char *p = qn__pool_get(pool, size[slot]);
            if (p == NULL) abort();
            p[0] = p[size[slot] - 1] = (unsigned char)member;
            held[slot] = p;
        }
    }
    for (int i = 0; i < 3; i++) {
        if (held[i] != NULL) qn__pool_put(pool, held[i], size[i]);
    }
}

static void many_threads(void **state)
{
    (void)state;
    books_open(-1);
    qn_pool *pool = qn__pool_create(8 * MIB);
    qn_team *team;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 6}, &team, NULL), QN_OK);
    qn__team_run(team, churn, pool);
    const qn_pool_stats s = stats_of(pool);
    assert_true(s.idle_bytes <= 8 * MIB);
    assert_true(s.hits > 0 && s.misses > 0);
    qn__team_destroy(team);
    qn__pool_destroy(pool);
    books_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hit_after_put),     cmocka_unit_test(large_goes_direct), cmocka_unit_test(idle_is_limited),
        cmocka_unit_test(last_in_first_out), cmocka_unit_test(failures),          cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
