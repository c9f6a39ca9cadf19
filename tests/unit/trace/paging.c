/* SPDX-License-Identifier: MIT */
/* tests/unit/trace/paging.c -- what less memory would cost, of traces that are put together by hand: one tensor that is
 * most of the file; as many tables as a hostile trace may have. */
#include "base/paging.h"
#include "unit/trace/rig.h"
#include <time.h>

static qn_error err;

/* With room for next to nothing all of it comes again for each token, the tensor that is most of it too. */
static void one_large_tensor(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, LARGE = 90, SMALL = 10 };
    rig r;
    rig_init(&r, 1 + SMALL, (uint64_t)(LARGE + SMALL) * MIB);
    rig_put(&r, 0, 0, (uint64_t)LARGE * MIB, false);
    for (int32_t i = 0; i < SMALL; i++) rig_put(&r, 1 + i, (uint64_t)(LARGE + i) * MIB, MIB, false);
    for (uint64_t read_ahead = 0; read_ahead <= MIB; read_ahead += MIB / 8) {
        qn_trace_paging p;
        assert_int_equal(qn_trace_get_paging(&r.t, 20 * MIB, read_ahead, &p, &err), QN_OK);
        assert_true(p.n_tokens > 0);
        if (p.kernel_bytes < 0.99 * (LARGE + SMALL) * MIB || p.kernel_bytes > 1.05 * (LARGE + SMALL) * MIB)
            fail_msg("%.0f bytes come by page faults of %llu", p.kernel_bytes, (unsigned long long)read_ahead);
    }
    rig_deinit(&r);
}

/* A hostile trace has as many tables as it likes, and stretches that are apart. */
static void many_tables(void **state)
{
    (void)state;
    enum { N = 400000, BYTES = 1000 };
    rig r;
    qn_trace_paging p;
    rig_init(&r, N, (uint64_t)2 * N * BYTES);
    for (int32_t i = 0; i < N; i++) rig_put(&r, i, (uint64_t)(2 * (i * INT64_C(7919) % N)) * BYTES, BYTES, i % 2);
    const clock_t start = clock();
    assert_int_equal(qn_trace_get_paging(&r.t, 0, 1 << 20, &p, &err), QN_OK);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (seconds > 10) fail_msg("%.1f s for %d tables", seconds, N / 2);
    rig_deinit(&r);
}

/* A table counts once, and not where all of it is used as well. */
static void each_table_once(void **state)
{
    (void)state;
    enum { N = 10, BYTES = 1 << 16 };
    static const struct {
        int32_t node, like;
        bool table;
        int n_weights;
    } cases[] = {{0, 0, true, N}, {1, 0, true, N - 1}, {9, 3, true, N - 1}, {9, 3, false, N - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig r;
        qn_trace_paging p;
        rig_init(&r, N, (uint64_t)N * BYTES);
        for (int32_t k = 0; k < N; k++) rig_put(&r, k, (uint64_t)k * BYTES, BYTES, true);
        rig_put(&r, cases[i].node, (uint64_t)cases[i].like * BYTES, BYTES, cases[i].table);
        assert_int_equal(qn_trace_get_paging(&r.t, 0, 0, &p, &err), QN_OK);
        assert_int_equal(p.least_bytes, qn__paging_least((uint64_t)cases[i].n_weights * BYTES, QN_PAGING_RESERVE));
        rig_deinit(&r);
    }
}

/* Of a size that is given, --memory leaves the program more than the kernel has to. */
static void reserves(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, N = 40 };
    rig r;
    qn_trace_paging p;
    rig_init(&r, N, (uint64_t)N * MIB);
    for (int32_t i = 0; i < N; i++) rig_put(&r, i, (uint64_t)i * MIB, MIB, false);
    assert_int_equal(qn_trace_get_paging(&r.t, QN_PAGING_RESERVE + N * MIB - MIB, 0, &p, &err), QN_OK);
    assert_true(p.reserve_bytes == QN_PAGING_RESERVE && p.budget_bytes == (N - 1) * MIB);
    assert_true(!p.fits && p.ahead_bytes > 0 && p.kernel_bytes == 0);
    assert_int_equal(qn_trace_get_paging(&r.t, QN_PAGING_LATER + N * MIB / 2, 0, &p, &err), QN_OK);
    assert_true(p.kernel_bytes > 0.9 * N * MIB);
    rig_deinit(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_large_tensor), cmocka_unit_test(many_tables),
                                       cmocka_unit_test(each_table_once), cmocka_unit_test(reserves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
