/* SPDX-License-Identifier: MIT */
/* src/cpu/op/reduce/softmax_back.c -- the gradients of softmax and log_softmax, row by row; see ops.def. */
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

#include <math.h>

enum { TILE = 4096 };
_Static_assert(TILE * 4 <= QN_MM_TILE_BYTES, "exponentials of a tile");

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_dense_rows(node, "dy", node->src[0], err) && qn__want_dense_rows(node, "y", node->src[1], err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(4096, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

static void row_f32(const qn_task *t, float *dx, const float *dy, const float *y, int64_t n, bool log)
{
    const float sum = log ? t->kernels->sum_f32(dy, n) : t->kernels->dot_f32(dy, y, n);
    if (!log) t->kernels->norm_back_f32(dx, dy, y, y, 0, 1, -sum, 0, n);
    for (int64_t at = 0; at < n && log; at += TILE) {
        const int64_t m = n - at < TILE ? n - at : TILE;
        t->kernels->exp_f32(t->tile, y + at, m);
        t->kernels->norm_back_f32(dx + at, dy + at, NULL, t->tile, 0, 1, -sum, 0, m);
    }
}

static void row_f64(double *dx, const double *dy, const double *y, int64_t n, bool log)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += log ? dy[i] : dy[i] * y[i];
    for (int64_t i = 0; i < n; i++) dx[i] = log ? dy[i] - exp(y[i]) * sum : y[i] * (dy[i] - sum);
}

static void run(const qn_task *t)
{
    const bool log = ((const qn_softmax_back_attrs *)t->attrs)->log;
    const int64_t n = qn__row_size(&t->dst.layout);
    if (n == 0) return;
    for (int64_t r = t->begin; r < t->end; r++) {
        void *dx = qn__row_at(&t->dst, r);
        const void *dy = qn__row_at(&t->src[0], r), *y = qn__row_at(&t->src[1], r);
        if (t->dst.dtype == QN_DTYPE_F64)
            row_f64(dx, dy, y, n, log);
        else
            row_f32(t, dx, dy, y, n, log);
    }
}

const qn_cpu_op qn__cpu_op_softmax_back = {QN_OP_softmax_back, accepts, NULL, 1, items, run};
