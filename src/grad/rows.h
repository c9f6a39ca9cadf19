/* SPDX-License-Identifier: MIT */
/* src/grad/rows.h -- prototypes of the functions that grads.def names, and the short words they are written in. */
#ifndef QN_GRAD_ROWS_H
#define QN_GRAD_ROWS_H

#include "grad/grad.h"

#define QN_GRAD(op, a, b, others) void qn__grad_##op(qn_grad_task *t);
#include "grad/grads.def"
#undef QN_GRAD

/* A 0-d value of the gradient's dtype. */
static inline qn_node *number(const qn_grad_task *t, double v)
{
    return qn__full(t->g, t->dy->dtype, &(qn_shape){0}, qn__value(v));
}

/* Zeros like source i. */
static inline qn_node *zeros(const qn_grad_task *t, int i)
{
    return qn__full(t->g, t->dtype[i], &t->shape[i], qn__value(0.0));
}

static inline qn_node *unary(const qn_grad_task *t, qn_op op, qn_node *x) { return qn__unary(t->g, op, x); }
static inline qn_node *binary(const qn_grad_task *t, qn_op op, qn_node *a, qn_node *b)
{
    return qn__binary(t->g, op, a, b);
}
static inline qn_node *add(const qn_grad_task *t, qn_node *a, qn_node *b) { return qn__add(t->g, a, b); }
static inline qn_node *sub(const qn_grad_task *t, qn_node *a, qn_node *b) { return qn__binary(t->g, QN_OP_sub, a, b); }
static inline qn_node *mul(const qn_grad_task *t, qn_node *a, qn_node *b) { return qn__mul(t->g, a, b); }
static inline qn_node *divide(const qn_grad_task *t, qn_node *a, qn_node *b)
{
    return qn__binary(t->g, QN_OP_div, a, b);
}
static inline qn_node *neg(const qn_grad_task *t, qn_node *a) { return qn__unary(t->g, QN_OP_neg, a); }
static inline qn_node *square(const qn_grad_task *t, qn_node *a) { return qn__unary(t->g, QN_OP_square, a); }
/* As of any product with a number, 16 bits are rounded to but once. */
static inline qn_node *times(const qn_grad_task *t, qn_node *a, double v)
{
    const qn_dtype d = t->dy->dtype, wide = d == QN_DTYPE_F16 || d == QN_DTYPE_BF16 ? QN_DTYPE_F32 : d;
    return v == 1.0 ? a : qn__mul(t->g, a, qn__full(t->g, wide, &(qn_shape){0}, qn__value(v)));
}
static inline qn_node *plus(const qn_grad_task *t, qn_node *a, double v) { return qn__add(t->g, a, number(t, v)); }
/* cond ? a : 0 and cond ? 0 : a; a may be infinite or NaN where it is not taken. */
static inline qn_node *only_where(const qn_grad_task *t, qn_node *cond, qn_node *a)
{
    return qn__where(t->g, cond, a, number(t, 0.0));
}
static inline qn_node *except_where(const qn_grad_task *t, qn_node *cond, qn_node *a)
{
    return qn__where(t->g, cond, number(t, 0.0), a);
}
/* The gradient of source i, summed over what broadcasting had stretched it by. A number in F32 among 16 bits gets its
 * own in F32. */
static inline void give(qn_grad_task *t, int i, qn_node *dx)
{
    dx = qn__grad_sum_to(t->g, dx, &t->shape[i]);
    t->dx[i] = dx != NULL && dx->dtype != t->dtype[i] ? qn__copy(t->g, dx, t->dtype[i]) : dx;
}

#endif
