/* SPDX-License-Identifier: MIT */
/* src/cpu/op/reduce/reduce.h -- what reductions share. The source is seen as [results, reduced]; the reduced
 * elements are in row-major order, in blocks of QN_RED_BLOCK. A reducer computes a state from a block and merges
 * states in order: a result depends on its own elements only, not on strides, threads, or the code path. */
#ifndef QN_CPU_OP_REDUCE_H
#define QN_CPU_OP_REDUCE_H

#include "cpu/op/driver.h"

#define QN_RED_BLOCK 2048

/* Of a part of the elements; what the fields mean is the reducer's. All zero is no state: the first block replaces it.
 */
typedef struct qn_red_state {
    double a, b;
    int64_t i, n;
} qn_red_state;

typedef struct qn_red {
    /* n >= 1 dense numbers of source kind K, the first of which is reduced element number `first` */
    void (*block[3])(const qn_task *t, const void *x, int64_t n, int64_t first, qn_red_state *s); /* by qn_number */
    void (*merge)(const qn_task *t, qn_red_state *s, const qn_red_state *next);
    /* n == 0 elements: s is all zero. The result in both ways; the one that the result's dtype wants is taken. */
    void (*finish)(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole);
    /* Contiguous columns, with kernels over rows; NULL where that is not faster. For F32. */
    void (*columns)(const qn_task *t, const float *const *rows, int64_t n_rows, int64_t n_cols, float *work,
                    qn_red_state *s);
} qn_red;

void qn__red_run(const qn_task *t, const qn_red *op);
int64_t qn__red_items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk);
uint64_t qn__red_scratch(const qn_kernels *kernels, const qn_node *node);
bool qn__red_accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err);

#define QN_RED_DRIVER(name, red) \
    static void run_##name(const qn_task *t) { qn__red_run(t, &(red)); } \
    const qn_cpu_op qn__cpu_op_##name = {QN_OP_##name, qn__red_accepts, qn__red_scratch, 2, qn__red_items, run_##name};

#endif
