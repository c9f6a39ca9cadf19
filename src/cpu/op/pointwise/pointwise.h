/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/pointwise.h -- what ops that compute element by element share: broadcasting, strided sources,
 * dtypes, and items, which are runs of QN_PW_RUN elements of the result. Kernels get dense runs of float, double or
 * int64_t (numbers.h), perhaps with y == x[0]. The value of an element depends neither on its position in a run nor
 * on the run's size. */
#ifndef QN_CPU_OP_POINTWISE_H
#define QN_CPU_OP_POINTWISE_H

#include "cpu/op/driver.h"

#define QN_PW_RUN     2048
#define QN_PW_MAX_SRC 3

typedef void (*qn_pw_fn)(const qn_task *t, void *y, const void *const *x, int64_t n);
typedef struct qn_pw {
    qn_pw_fn fn[3]; /* by qn_number of source 0; NULL where the op's rule lets no such dtype in */
    bool truth;     /* y is uint8_t, 0 or 1, for BOOL; else numbers like x */
    qn_pw_fn raw;   /* instead of fn: elements as they are, source i and y in their own dtypes */
} qn_pw;

void qn__pw_run(const qn_task *t, const qn_pw *op);
int64_t qn__pw_items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk);
bool qn__pw_accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err);

/* The driver of op NAME from a static qn_pw. */
#define QN_PW_DRIVER(name, pw) \
    static void run_##name(const qn_task *t) { qn__pw_run(t, &(pw)); } \
    const qn_cpu_op qn__cpu_op_##name = {QN_OP_##name, qn__pw_accepts, NULL, 1, qn__pw_items, run_##name};

/* A kernel in plain C: `expr` is the result of one element a (b, c), each a T. */
#define QN_PW_LOOP(fn, Y, T, declare, expr) \
    static void fn(const qn_task *t, void *y_, const void *const *x, int64_t n) \
    { \
        Y *y = y_; \
        (void)t; \
        for (int64_t i = 0; i < n; i++) { declare y[i] = (Y)(expr); } \
    }
#define QN_PW_ELEM(T, name, k)      const T name = ((const T *)x[k])[i];
#define QN_PW_LOOP1(fn, Y, T, expr) QN_PW_LOOP(fn, Y, T, QN_PW_ELEM(T, a, 0), expr)
#define QN_PW_LOOP2(fn, Y, T, expr) QN_PW_LOOP(fn, Y, T, QN_PW_ELEM(T, a, 0) QN_PW_ELEM(T, b, 1), expr)
#define QN_PW_LOOP3(fn, Y, T, expr) \
    QN_PW_LOOP(fn, Y, T, QN_PW_ELEM(T, a, 0) QN_PW_ELEM(T, b, 1) QN_PW_ELEM(T, c, 2), expr)

#endif
