/* SPDX-License-Identifier: MIT */
/* tests/unit/trace/rig.h -- traces that are put together by hand: RIG_STEPS steps of decoding, whose nodes read tensors
 * of one file. */
#ifndef QN_TEST_TRACE_RIG_H
#define QN_TEST_TRACE_RIG_H

#include "trace/read.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef RIG_STEPS
#define RIG_STEPS 4
#endif
enum { FILE_ID = 1 };

/* Node 2k computes and reads the file's tensor that node 2k + 1 is. */
typedef struct rig {
    qn_trace t;
    qn_trace_plan plan;
    qn_trace_node *nodes;
    int32_t *src;
    qn_trace_step steps[RIG_STEPS];
    qn_trace_file file;
    int64_t rows;
} rig;

static inline void rig_init(rig *r, int32_t n, uint64_t file_bytes)
{
    *r = (rig){.rows = 1000, .file = {.id = FILE_ID, .bytes = file_bytes, .path = "x"}};
    r->nodes = calloc((size_t)n * 2, sizeof *r->nodes);
    r->src = calloc((size_t)n, sizeof *r->src);
    assert_true(r->nodes && r->src);
    r->plan = (qn_trace_plan){.n_nodes = 2 * n, .nodes = r->nodes};
    for (int i = 0; i < RIG_STEPS; i++)
        r->steps[i] = (qn_trace_step){
            .number = (uint64_t)i + 1, .plan = &r->plan, .phase = QN_TRACE_PHASE_decode, .n_tokens = 1, .ns = 1000};
    r->t.steps.at = r->steps;
    r->t.steps.n = RIG_STEPS;
    r->t.files.at = &r->file;
    r->t.files.n = 1;
}

static inline void rig_deinit(rig *r)
{
    free(r->nodes);
    free(r->src);
    qn__free(r->t.spans.at);
    qn__free(r->t.looks.at);
}

/* Node k reads so much; table: rows of it. */
static inline void rig_put(rig *r, int32_t k, uint64_t offset, uint64_t bytes, bool table)
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

#endif
