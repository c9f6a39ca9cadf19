/* SPDX-License-Identifier: MIT */
/* src/cpu/op/reduce/cumprod_back.c -- the gradient of cumprod, row by row: from the end s = dy[k] + x[k+1] s; then
 * from the front times the product of what comes before. There is no quotient, so zeros are no special case. Carried
 * in double. */
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_dense_rows(node, "dy", node->src[0], err) && qn__want_dense_rows(node, "x", node->src[1], err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(4096, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

/* dx may be dy. */
#define ROW(name, T) \
    static void name(T *dx, const T *dy, const T *x, int64_t n) \
    { \
        double s = 0, before = 1; \
        for (int64_t k = n - 1; k >= 0; k--) { \
            s = (double)dy[k] + (k + 1 < n ? (double)x[k + 1] * s : 0); \
            dx[k] = (T)s; \
        } \
        for (int64_t k = 0; k < n; k++) { \
            dx[k] = (T)(before * (double)dx[k]); \
            before *= (double)x[k]; \
        } \
    }
ROW(row_f32, float)
ROW(row_f64, double)

static void run(const qn_task *t)
{
    const int64_t n = qn__row_size(&t->dst.layout);
    for (int64_t r = t->begin; r < t->end; r++) {
        void *dx = qn__row_at(&t->dst, r);
        const void *dy = qn__row_at(&t->src[0], r), *x = qn__row_at(&t->src[1], r);
        if (t->dst.dtype == QN_DTYPE_F64)
            row_f64(dx, dy, x, n);
        else
            row_f32(dx, dy, x, n);
    }
}

const qn_cpu_op qn__cpu_op_cumprod_back = {QN_OP_cumprod_back, accepts, NULL, 1, items, run};
