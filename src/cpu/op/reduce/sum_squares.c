/* SPDX-License-Identifier: MIT */
/* src/cpu/op/reduce/sum_squares.c -- the sum of squares of all elements of several tensors, in double: blocks of BLOCK
 * elements in CHAINS chains each, then the blocks in order. The order depends on the shapes alone. */
#include "cpu/op/pointwise/numbers.h"
#include "cpu/op/ops.h"

enum { BLOCK = 4096, CHAINS = 16 };

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    (void)node;
    (void)err;
    return true; /* sources are real: the shape rule checks it */
}

static int carry_of(const qn_node *node) { return ((const qn_sum_squares_attrs *)node->attrs)->carry != 0; }
static int64_t blocks_of(const qn_layout *l) { return (qn_layout_numel(l) + BLOCK - 1) / BLOCK; }

static int64_t all_blocks(const qn_node *node)
{
    int64_t n = 0;
    for (int i = carry_of(node); i < node->n_src; i++) n += blocks_of(&node->src[i]->layout);
    return n;
}

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    return (uint64_t)all_blocks(node) * sizeof(double);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    *chunk = phase == 0 ? 4 : 1;
    return phase == 0 ? all_blocks(node) : 1;
}

#define CHAINED(T) \
    static double squares_##T(const T *x, int64_t n) \
    { \
        double chain[CHAINS] = {0}; \
        int64_t i = 0; \
        for (; i + CHAINS <= n; i += CHAINS) \
            for (int j = 0; j < CHAINS; j++) chain[j] += (double)x[i + j] * (double)x[i + j]; \
        for (int j = 0; i < n; i++, j++) chain[j] += (double)x[i] * (double)x[i]; \
        for (int half = CHAINS / 2; half > 0; half /= 2) \
            for (int j = 0; j < half; j++) chain[j] += chain[j + half]; \
        return chain[0]; \
    }
CHAINED(float)
CHAINED(double)

static double block(const qn_task *t, const qn_view *v, int64_t number)
{
    const int64_t first = number * BLOCK, left = qn_layout_numel(&v->layout) - first, n = left < BLOCK ? left : BLOCK;
    const qn_walk w = qn__walk_of(v);
    const void *x = qn__walk_load(t->kernels, &w, first, n, t->tile);
    return v->dtype == QN_DTYPE_F64 ? squares_double(x, n) : squares_float(x, n);
}

static void run(const qn_task *t)
{
    double *sums = (double *)(void *)t->scratch;
    const int carry = carry_of(t->node);
    if (t->phase == 0) {
        int64_t at = 0; /* the number of the source's first block */
        for (int i = carry; i < t->n_src; i++) {
            const int64_t n = blocks_of(&t->src[i].layout);
            for (int64_t b = t->begin > at ? t->begin - at : 0; b < n && at + b < t->end; b++)
                sums[at + b] = block(t, &t->src[i], b);
            at += n;
        }
        return;
    }
    const int64_t n = all_blocks(t->node);
    double sum = carry ? *(const double *)(const void *)t->src[0].data : 0;
    for (int64_t i = 0; i < n; i++) sum += sums[i];
    *(double *)(void *)t->dst.data = sum;
}

const qn_cpu_op qn__cpu_op_sum_squares = {QN_OP_sum_squares, accepts, scratch, 2, items, run};
