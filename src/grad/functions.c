/* SPDX-License-Identifier: MIT */
/* src/grad/functions.c -- functions of one number: dx = dy times a slope, which is all that is written here. A function
 * with branches takes the gradient by branch, so that what the other branch would give, infinite perhaps, is not looked
 * at. */
#include "grad/rows.h"
#include <math.h>

#define LN2              0.693147180559945309417
#define LN10             2.302585092994045684018
#define TWO_OVER_SQRT_PI 1.128379167095512573896

#define X                (t->src[0])
#define Y                (t->y)

/* ---- slopes ---- */

#define SLOPE(op, ...) \
    void qn__grad_##op(qn_grad_task *t) { t->dx[0] = mul(t, t->dy, __VA_ARGS__); }
/* dx = dy / divisor, rather than times a reciprocal: one rounding */
#define SLOPE_UNDER(op, ...) \
    void qn__grad_##op(qn_grad_task *t) { t->dx[0] = divide(t, t->dy, __VA_ARGS__); }

static qn_node *one_less(const qn_grad_task *t, qn_node *x) { return sub(t, number(t, 1.0), x); }

/* clang-format off */
SLOPE(abs, unary(t, QN_OP_sign, X))
SLOPE(square, times(t, X, 2.0))
SLOPE(exp, Y)
SLOPE(expm1, plus(t, Y, 1.0))
SLOPE_UNDER(log, X)
SLOPE_UNDER(log1p, plus(t, X, 1.0))
SLOPE_UNDER(log2, times(t, X, LN2))
SLOPE_UNDER(log10, times(t, X, LN10))
SLOPE_UNDER(sqrt, times(t, Y, 2.0))
/* clang-format on */
SLOPE(rsqrt, times(t, mul(t, square(t, Y), Y), -0.5))
SLOPE(reciprocal, neg(t, square(t, Y)))
SLOPE(sin, unary(t, QN_OP_cos, X))
SLOPE(cos, neg(t, unary(t, QN_OP_sin, X)))
SLOPE(tan, plus(t, square(t, Y), 1.0))
SLOPE(asin, unary(t, QN_OP_rsqrt, one_less(t, square(t, X))))
SLOPE(acos, neg(t, unary(t, QN_OP_rsqrt, one_less(t, square(t, X)))))
SLOPE_UNDER(atan, plus(t, square(t, X), 1.0))
SLOPE(sinh, unary(t, QN_OP_cosh, X))
SLOPE(cosh, unary(t, QN_OP_sinh, X))
SLOPE(tanh, one_less(t, square(t, Y)))
SLOPE(asinh, unary(t, QN_OP_rsqrt, plus(t, square(t, X), 1.0)))
SLOPE(acosh, unary(t, QN_OP_rsqrt, plus(t, square(t, X), -1.0)))
SLOPE_UNDER(atanh, one_less(t, square(t, X)))
SLOPE(erf, times(t, unary(t, QN_OP_exp, neg(t, square(t, X))), TWO_OVER_SQRT_PI))
SLOPE(sigmoid, mul(t, Y, one_less(t, Y)))

void qn__grad_neg(qn_grad_task *t) { t->dx[0] = neg(t, t->dy); }

/* ---- steps: flat but where they jump ---- */

#define FLAT(op) \
    void qn__grad_##op(qn_grad_task *t) { t->dx[0] = zeros(t, 0); }
/* clang-format off */
FLAT(sign)
FLAT(floor)
FLAT(ceil)
FLAT(round)
FLAT(trunc)
/* clang-format on */
void qn__grad_frac(qn_grad_task *t) { t->dx[0] = t->dy; }

/* ---- activations ---- */

/* With s = sigmoid(x): d(x s) = s (1 + x (1 - s)) */
static qn_node *slope_of_silu(const qn_grad_task *t, qn_node *x)
{
    qn_node *s = unary(t, QN_OP_sigmoid, x);
    return mul(t, s, plus(t, mul(t, x, one_less(t, s)), 1.0));
}

SLOPE(silu, slope_of_silu(t, X))

void qn__grad_gelu(qn_grad_task *t) { t->dx[0] = qn__op(t->g, QN_OP_gelu_back, t->attrs, (qn_node *[]){t->dy, X}, 2); }

static qn_node *positive(const qn_grad_task *t, qn_node *x) { return binary(t, QN_OP_gt, x, number(t, 0.0)); }

void qn__grad_relu(qn_grad_task *t) { t->dx[0] = only_where(t, positive(t, Y), t->dy); }

void qn__grad_elu(qn_grad_task *t)
{
    const double alpha = ((const qn_value_attrs *)t->attrs)->value;
    qn_node *below = times(t, mul(t, t->dy, unary(t, QN_OP_exp, X)), alpha);
    t->dx[0] = qn__where(t->g, positive(t, X), t->dy, below);
}

void qn__grad_leaky_relu(qn_grad_task *t)
{
    const double slope = ((const qn_value_attrs *)t->attrs)->value;
    t->dx[0] = qn__where(t->g, positive(t, X), t->dy, times(t, t->dy, slope));
}

void qn__grad_softplus(qn_grad_task *t)
{
    const qn_softplus_attrs *a = t->attrs;
    qn_node *bx = times(t, X, a->beta);
    qn_node *bent = mul(t, t->dy, unary(t, QN_OP_sigmoid, bx));
    t->dx[0] = qn__where(t->g, binary(t, QN_OP_gt, bx, number(t, a->threshold)), t->dy, bent);
}

/* At the bounds the slope is 0, as in PyTorch 2.15. */
void qn__grad_clamp(qn_grad_task *t)
{
    const qn_clamp_attrs *a = t->attrs;
    qn_node *inside = NULL;
    if (!isinf(a->min)) inside = binary(t, QN_OP_gt, X, number(t, a->min));
    if (!isinf(a->max)) {
        qn_node *below = binary(t, QN_OP_lt, X, number(t, a->max));
        inside = inside == NULL ? below : binary(t, QN_OP_logical_and, inside, below);
    }
    t->dx[0] = inside == NULL ? t->dy : only_where(t, inside, t->dy);
}
