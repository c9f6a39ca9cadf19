/* SPDX-License-Identifier: MIT */
/* src/grad/reduce.c -- reductions, softmax and scans. Values of the result's shape come back to the source's by
 * unreduced(): the reduced dimensions stand there with size 1 and broadcast. */
#include "grad/rows.h"
#include <math.h>

/* dims of the task's op that the source has */
static uint32_t dims_of(const qn_grad_task *t)
{
    return t->shape[0].rank == 0 ? 0 : ((const qn_reduce_attrs *)t->attrs)->dims;
}

static qn_node *unreduced(const qn_grad_task *t, qn_node *n)
{
    qn_shape s = t->shape[0];
    for (int i = 0; i < s.rank; i++) {
        if (dims_of(t) >> i & 1) s.dim[i] = 1;
    }
    return qn__grad_reshape(t->g, n, &s);
}

static double count_of(const qn_grad_task *t)
{
    double n = 1;
    for (int i = 0; i < t->shape[0].rank; i++) {
        if (dims_of(t) >> i & 1) n *= (double)t->shape[0].dim[i];
    }
    return n;
}

/* A reduction of n over the same dimensions, which stay. */
static qn_node *reduce(const qn_grad_task *t, qn_op op, qn_node *n)
{
    const uint32_t dims = ((const qn_reduce_attrs *)t->attrs)->dims;
    return qn__op(t->g, op, &(qn_reduce_attrs){.dims = dims, .keep = 1}, &n, 1);
}

/* A count need not fit 16 bits: from 65520 on it is infinite in F16, and BF16 keeps two digits of it. So gradients
 * that are divided by one are computed in F32, from sources in F32, and rounded at the end. */
static void in_f32(qn_grad_task *t, void (*grad)(qn_grad_task *t))
{
    const qn_dtype dtype = t->dy->dtype;
    if (dtype != QN_DTYPE_F16 && dtype != QN_DTYPE_BF16) {
        grad(t);
        return;
    }
    qn_grad_task wide = *t;
    wide.dy = qn__copy(t->g, t->dy, QN_DTYPE_F32);
    if (t->src[0] != NULL) wide.src[0] = qn__copy(t->g, t->src[0], QN_DTYPE_F32);
    if (t->y != NULL) wide.y = qn__copy(t->g, t->y, QN_DTYPE_F32);
    grad(&wide);
    t->dx[0] = qn__copy(t->g, wide.dx[0], dtype);
}

/* ---- sums ---- */

void qn__grad_sum(qn_grad_task *t) { t->dx[0] = qn__grad_expand(t->g, unreduced(t, t->dy), &t->shape[0]); }

/* Of the result's shape. */
static void share(qn_grad_task *t) { t->dx[0] = divide(t, t->dy, number(t, count_of(t))); }

void qn__grad_mean(qn_grad_task *t)
{
    in_f32(t, share);
    t->dx[0] = qn__grad_expand(t->g, unreduced(t, t->dx[0]), &t->shape[0]);
}

/* With d = dy / divisor, of y's shape: d (x - mean) */
static void spread(qn_grad_task *t, qn_node *d)
{
    qn_node *x = t->src[0];
    t->dx[0] = mul(t, unreduced(t, d), sub(t, x, reduce(t, QN_OP_mean, x)));
}

static double freedom(const qn_grad_task *t)
{
    return fmax(0.0, count_of(t) - ((const qn_reduce_attrs *)t->attrs)->value);
}

static void of_var(qn_grad_task *t) { spread(t, divide(t, times(t, t->dy, 2.0), number(t, freedom(t)))); }

static void of_std(qn_grad_task *t)
{
    qn_node *d = divide(t, t->dy, times(t, t->y, freedom(t)));
    spread(t, except_where(t, binary(t, QN_OP_eq, t->y, number(t, 0.0)), d));
}

void qn__grad_var(qn_grad_task *t) { in_f32(t, of_var); }
void qn__grad_std(qn_grad_task *t) { in_f32(t, of_std); }

/* ---- products ---- */

/* [n, m] -> the product of all before each in its row: 1, x0, x0 x1, .. */
static qn_node *product_before(const qn_grad_task *t, qn_node *x)
{
    qn_graph *g = t->g;
    if (g->error.status != QN_OK) return g->bad;
    const int64_t n = x->layout.dim[0], m = x->layout.dim[1];
    qn_node *ones = qn__full(g, x->dtype, &qn_shape_of(n, 1), qn__value(1.0));
    qn_node *parts[] = {ones, qn__narrow(g, x, 1, 0, m - 1)};
    return qn__along(g, QN_OP_cumprod, qn__cat(g, parts, 2, 1), 1);
}

/* The source's dimensions in another order, `dims` last, as [all others, those]; and the way back. */
typedef struct rows {
    int order[QN_MAX_RANK], back[QN_MAX_RANK], n;
    qn_shape flat;
} rows;

static rows rows_of(const qn_shape *shape, uint32_t dims)
{
    rows r = {.flat = qn_shape_of(1, 1)};
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < shape->rank; i++) {
            if ((int)(dims >> i & 1) != pass) continue;
            r.flat.dim[pass] *= shape->dim[i];
            r.back[i] = r.n;
            r.order[r.n++] = i;
        }
    }
    return r;
}

static qn_node *to_rows(qn_graph *g, const rows *r, qn_node *x)
{
    return qn__grad_reshape(g, qn__permute(g, x, r->order, r->n), &r->flat);
}

static qn_node *from_rows(qn_graph *g, const rows *r, const qn_shape *shape, qn_node *x)
{
    qn_shape moved = {.rank = r->n};
    for (int i = 0; i < r->n; i++) moved.dim[i] = shape->dim[r->order[i]];
    return qn__permute(g, qn__grad_reshape(g, x, &moved), r->back, r->n);
}

/* The product of the others is that of those before times that of those after: zeros among the factors need no
 * exception. */
void qn__grad_prod(qn_grad_task *t)
{
    qn_graph *g = t->g;
    if (qn_shape_numel(&t->shape[0]) == 0) {
        t->dx[0] = zeros(t, 0);
        return;
    }
    const rows r = rows_of(&t->shape[0], dims_of(t));
    qn_node *flat = to_rows(g, &r, t->src[0]);
    qn_node *after = qn__grad_flip(g, product_before(t, qn__grad_flip(g, flat, 1)), 1);
    qn_node *others = mul(t, product_before(t, flat), after);
    t->dx[0] = mul(t, unreduced(t, t->dy), from_rows(g, &r, &t->shape[0], others));
}

void qn__grad_cumprod(qn_grad_task *t)
{
    qn_graph *g = t->g;
    if (t->y_shape.rank == 0 || qn_shape_numel(&t->y_shape) == 0) {
        t->dx[0] = t->dy;
        return;
    }
    const rows r = rows_of(&t->shape[0], 1u << ((const qn_along_attrs *)t->attrs)->dim);
    const qn_dtype dtype = t->dy->dtype, wide = dtype == QN_DTYPE_F64 ? QN_DTYPE_F64 : QN_DTYPE_F32;
    qn_node *src[2] = {t->dy, t->src[0]};
    for (int i = 0; i < 2; i++) {
        src[i] = to_rows(g, &r, src[i]);
        if (src[i]->dtype != wide) src[i] = qn__copy(g, src[i], wide);
        src[i] = qn__grad_dense(g, src[i]);
    }
    qn_node *dx = qn__cumprod_back(g, src[0], src[1]);
    if (wide != dtype) dx = qn__copy(g, dx, dtype);
    t->dx[0] = from_rows(g, &r, &t->shape[0], dx);
}

/* ---- extremes ---- */

/* All that equal the extreme share its gradient evenly. */
static qn_node *shared(const qn_grad_task *t, qn_node *x, qn_node *dy)
{
    qn_node *is = qn__copy(t->g, binary(t, QN_OP_eq, x, unreduced(t, t->y)), t->dy->dtype);
    return mul(t, is, divide(t, unreduced(t, dy), reduce(t, QN_OP_sum, is)));
}

static void of_extreme(qn_grad_task *t) { t->dx[0] = shared(t, t->src[0], t->dy); }

void qn__grad_amax(qn_grad_task *t) { in_f32(t, of_extreme); }
void qn__grad_amin(qn_grad_task *t) { in_f32(t, of_extreme); }

/* ---- logarithms and norms ---- */

void qn__grad_logsumexp(qn_grad_task *t)
{
    t->dx[0] = mul(t, unreduced(t, t->dy), unary(t, QN_OP_exp, sub(t, t->src[0], unreduced(t, t->y))));
}

/* y = (sum |x|^p)^(1/p): dx = dy sign(x) (|x| / y)^(p-1), 0 where y or x is 0. Infinite p: like amax of |x|. */
void qn__grad_norm(qn_grad_task *t)
{
    const double p = ((const qn_reduce_attrs *)t->attrs)->value;
    qn_node *x = t->src[0], *y = unreduced(t, t->y), *dy = unreduced(t, t->dy);
    if (p == 0.0) {
        t->dx[0] = zeros(t, 0);
        return;
    }
    qn_node *sign = unary(t, QN_OP_sign, x);
    if (isinf(p)) {
        t->dx[0] = mul(t, sign, shared(t, unary(t, QN_OP_abs, x), t->dy));
    } else if (p == 1.0) {
        t->dx[0] = mul(t, sign, dy);
    } else {
        qn_node *part = divide(t, unary(t, QN_OP_abs, x), y);
        qn_node *slope = p == 2.0 ? part : binary(t, QN_OP_pow, part, number(t, p - 1.0));
        t->dx[0] = except_where(t, binary(t, QN_OP_eq, x, number(t, 0.0)), mul(t, mul(t, sign, dy), slope));
    }
}

/* ---- along one dimension ---- */

static int along(const qn_grad_task *t) { return ((const qn_along_attrs *)t->attrs)->dim; }

static qn_node *sum_along(const qn_grad_task *t, qn_node *x)
{
    if (t->y_shape.rank == 0) return x;
    return qn__op(t->g, QN_OP_sum, &(qn_reduce_attrs){.dims = 1u << along(t), .keep = 1}, &x, 1);
}

/* Over rows as they lie it is one node. */
static bool as_rows(const qn_grad_task *t)
{
    const qn_dtype d = t->dy->dtype;
    return (d == QN_DTYPE_F32 || d == QN_DTYPE_F64) && t->y_shape.rank > 0 && along(t) == t->y_shape.rank - 1;
}

void qn__grad_softmax(qn_grad_task *t)
{
    if (as_rows(t)) {
        t->dx[0] = qn__softmax_back(t->g, qn__grad_dense(t->g, t->dy), qn__grad_dense(t->g, t->y), false);
        return;
    }
    qn_node *weighed = mul(t, t->dy, t->y);
    t->dx[0] = sub(t, weighed, mul(t, t->y, sum_along(t, weighed)));
}

void qn__grad_log_softmax(qn_grad_task *t)
{
    if (as_rows(t))
        t->dx[0] = qn__softmax_back(t->g, qn__grad_dense(t->g, t->dy), qn__grad_dense(t->g, t->y), true);
    else
        t->dx[0] = sub(t, t->dy, mul(t, unary(t, QN_OP_exp, t->y), sum_along(t, t->dy)));
}

/* x[i] is in y[i] and all after: a sum from the other end. */
void qn__grad_cumsum(qn_grad_task *t)
{
    qn_graph *g = t->g;
    if (t->y_shape.rank == 0) {
        t->dx[0] = t->dy;
        return;
    }
    const int d = along(t);
    t->dx[0] = qn__grad_flip(g, qn__along(g, QN_OP_cumsum, qn__grad_flip(g, t->dy, d), d), d);
}
