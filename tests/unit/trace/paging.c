/* SPDX-License-Identifier: MIT */
/* tests/unit/trace/paging.c -- what less memory would cost, of traces that are put together by hand: one tensor that is
 * most of the file. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_large_tensor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
