/* SPDX-License-Identifier: MIT */
/* src/cpu/op/elementwise.h -- what ops that compute element by element share: broadcasting, strided sources, and the cut into items.
 * When everything is dense an item is a run of QN_EW_RUN elements, else a row of the result. */
#ifndef QN_CPU_OP_ELEMENTWISE_H
#define QN_CPU_OP_ELEMENTWISE_H

#include "cpu/cpu.h"

#define QN_EW_RUN 2048

/* y[i] = f(a[i], b[i]) for dense runs; b is NULL for ops of one source. y may be a. */
typedef void (*qn_ew_fn)(const qn_task *t, float *y, const float *a, const float *b, int64_t n);
void qn__ew_run(const qn_task *t, qn_ew_fn fn);
int64_t qn__ew_items(const qn_ukr *ukr, const qn_node *node, int phase, int64_t *chunk);
bool qn__ew_accepts(const qn_ukr *ukr, const qn_node *node, qn_error *err);

#define QN_EW_OP(name, fn)                                                                                             \
    static void run_##name(const qn_task *t) { qn__ew_run(t, fn); }                                                    \
    const qn_cpu_op qn__cpu_op_##name = {QN_OP_##name, qn__ew_accepts, NULL, 1, qn__ew_items, run_##name};

#endif
