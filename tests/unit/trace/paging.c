/* SPDX-License-Identifier: MIT */
/* tests/unit/trace/paging.c -- what less memory would cost, of traces that are put together by hand: one tensor that is
 * most of the file; as many tables as a hostile trace may have. */
#include "base/paging.h"
#include "trace/read.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { STEPS = 4, FILE_ID = 1 };

static qn_error err;

/* Node 2k computes and reads the file's tensor that node 2k + 1 is. */
typedef struct rig {
    qn_trace t;
    qn_trace_plan plan;
    qn_trace_node *nodes;
    int32_t *src;
    qn_trace_step steps[STEPS];
    qn_trace_file file;
    int64_t rows;
} rig;

static void rig_init(rig *r, int32_t n, uint64_t file_bytes)
{
    *r = (rig){.rows = 1000, .file = {.id = FILE_ID, .bytes = file_bytes, .path = "x"}};
    r->nodes = calloc((size_t)n * 2, sizeof *r->nodes);
    r->src = calloc((size_t)n, sizeof *r->src);
    assert_true(r->nodes && r->src);
    r->plan = (qn_trace_plan){.n_nodes = 2 * n, .nodes = r->nodes};
    for (int i = 0; i < STEPS; i++)
        r->steps[i] = (qn_trace_step){
            .number = (uint64_t)i + 1, .plan = &r->plan, .phase = QN_TRACE_PHASE_decode, .n_tokens = 1, .ns = 1000};
    r->t.steps.at = r->steps;
    r->t.steps.n = STEPS;
    r->t.files.at = &r->file;
    r->t.files.n = 1;
}

static void rig_deinit(rig *r)
{
    free(r->nodes);
    free(r->src);
    qn__free(r->t.spans.at);
    qn__free(r->t.looks.at);
}

/* Node k reads so much; table: rows of it. */
static void put(rig *r, int32_t k, uint64_t offset, uint64_t bytes, bool table)
{
    r->src[k] = 2 * k + 1;
    r->nodes[2 * k] = (qn_trace_node){.op = table ? "get_rows" : "linear",
                                      .name = "",
                                      .id = 2 * k,
                                      .computes = true,
                                      .n_src = 1,
                                      .src = &r->src[k],
                                      .root = 2 * k,
                                      .cost.weight_bytes = table ? 1 : bytes};
    r->nodes[2 * k + 1] = (qn_trace_node){.op = "param",
                                          .name = "",
                                          .id = 2 * k + 1,
                                          .root = 2 * k + 1,
                                          .rank = 1,
                                          .shape = &r->rows,
                                          .bytes = bytes,
                                          .space = QN_TRACE_FILE,
                                          .file = FILE_ID,
                                          .offset = offset};
}

/* With room for next to nothing all of it comes again for each token, the tensor that is most of it too. */
static void one_large_tensor(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, LARGE = 90, SMALL = 10 };
    rig r;
    rig_init(&r, 1 + SMALL, (uint64_t)(LARGE + SMALL) * MIB);
    put(&r, 0, 0, (uint64_t)LARGE * MIB, false);
    for (int32_t i = 0; i < SMALL; i++) put(&r, 1 + i, (uint64_t)(LARGE + i) * MIB, MIB, false);
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
    for (int32_t i = 0; i < N; i++) put(&r, i, (uint64_t)(2 * (i * INT64_C(7919) % N)) * BYTES, BYTES, i % 2);
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
        for (int32_t k = 0; k < N; k++) put(&r, k, (uint64_t)k * BYTES, BYTES, true);
        put(&r, cases[i].node, (uint64_t)cases[i].like * BYTES, BYTES, cases[i].table);
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
    for (int32_t i = 0; i < N; i++) put(&r, i, (uint64_t)i * MIB, MIB, false);
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
