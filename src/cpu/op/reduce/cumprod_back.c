/* SPDX-License-Identifier: MIT */
/* src/cpu/op/reduce/cumprod_back.c -- the gradient of cumprod, row by row: from the end s = dy[k] + x[k+1] s; then
 * from the front times the product of what comes before. There is no quotient, so zeros are no special case. Carried
 * in double, both: either may leave the range of floats where the other is 0. So a row is walked from its end in parts,
 * with the products before a part in scratch and those within it in the thread's tile. */
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_dense_rows(node, "dy", node->src[0], err) && qn__want_dense_rows(node, "x", node->src[1], err);
}

enum { PART = 2048 }; /* elements: 16 KiB of products, which stay in L1 */

static int64_t parts_of(int64_t n) { return (n + PART - 1) / PART; }

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    return (uint64_t)(qn__row_count(&node->layout) * parts_of(qn__row_size(&node->layout))) * sizeof(double);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(4096, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

/* dx may be dy; first: [parts], before: [PART]. */
#define ROW(name, T) \
    static void name(T *dx, const T *dy, const T *x, int64_t n, double *first, double *before) \
    { \
        double s = 0, product = 1; \
        for (int64_t k = 0; k < n; k++) { \
            if (k % PART == 0) first[k / PART] = product; \
            product *= (double)x[k]; \
        } \
        for (int64_t part = parts_of(n) - 1; part >= 0; part--) { \
            const int64_t begin = part * PART, end = n - begin < PART ? n : begin + PART; \
            product = first[part]; \
            for (int64_t k = begin; k < end; k++) { \
                before[k - begin] = product; \
                product *= (double)x[k]; \
            } \
            for (int64_t k = end - 1; k >= begin; k--) { \
                s = (double)dy[k] + (k + 1 < n ? (double)x[k + 1] * s : 0); \
                dx[k] = (T)(before[k - begin] * s); \
            } \
        } \
    }
ROW(row_f32, float)
ROW(row_f64, double)

static void run(const qn_task *t)
{
    const int64_t n = qn__row_size(&t->dst.layout);
    double *before = (double *)(void *)t->tile;
    if (n == 0) return; /* there is no scratch */
    for (int64_t r = t->begin; r < t->end; r++) {
        void *dx = qn__row_at(&t->dst, r);
        double *first = (double *)(void *)t->scratch + r * parts_of(n);
        const void *dy = qn__row_at(&t->src[0], r), *x = qn__row_at(&t->src[1], r);
        if (t->dst.dtype == QN_DTYPE_F64)
            row_f64(dx, dy, x, n, first, before);
        else
            row_f32(dx, dy, x, n, first, before);
    }
}

const qn_cpu_op qn__cpu_op_cumprod_back = {QN_OP_cumprod_back, accepts, scratch, 1, items, run};
