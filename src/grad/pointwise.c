/* SPDX-License-Identifier: MIT */
/* src/grad/pointwise.c -- operations of two and three sources element by element. Where two sources are equal, maximum
 * and minimum give each half, as PyTorch does. */
#include "grad/rows.h"

void qn__grad_sub(qn_grad_task *t)
{
    if (t->wanted[0]) give(t, 0, t->dy);
    if (t->wanted[1]) give(t, 1, neg(t, t->dy));
}

void qn__grad_div(qn_grad_task *t)
{
    if (t->wanted[0]) give(t, 0, divide(t, t->dy, t->src[1]));
    if (!t->wanted[1]) return;
    qn_node *y = divide(t, t->src[0], t->src[1]); /* not kept, so that the result may be changed in place */
    give(t, 1, neg(t, divide(t, mul(t, t->dy, y), t->src[1])));
}

/* y = a - b floor(a / b), and with trunc: between the steps a has slope 1, b that of minus the quotient */
static void remainder_of(qn_grad_task *t, qn_op rounding)
{
    if (t->wanted[0]) give(t, 0, t->dy);
    if (t->wanted[1]) give(t, 1, neg(t, mul(t, t->dy, unary(t, rounding, divide(t, t->src[0], t->src[1])))));
}

void qn__grad_remainder(qn_grad_task *t) { remainder_of(t, QN_OP_floor); }
void qn__grad_fmod(qn_grad_task *t) { remainder_of(t, QN_OP_trunc); }

/* Rounded quotients are flat. */
static void no_slope(qn_grad_task *t)
{
    for (int i = 0; i < 2; i++) {
        if (t->wanted[i]) t->dx[i] = zeros(t, i);
    }
}

void qn__grad_floor_divide(qn_grad_task *t) { no_slope(t); }
void qn__grad_trunc_divide(qn_grad_task *t) { no_slope(t); }

/* da = b a^(b-1), 0 for b = 0; db = y log a, 0 for a = 0 and b >= 0 */
void qn__grad_pow(qn_grad_task *t)
{
    qn_node *a = t->src[0], *b = t->src[1];
    if (t->wanted[0]) {
        qn_node *slope = mul(t, b, binary(t, QN_OP_pow, a, plus(t, b, -1.0)));
        give(t, 0, except_where(t, binary(t, QN_OP_eq, b, number(t, 0.0)), mul(t, t->dy, slope)));
    }
    if (t->wanted[1]) {
        qn_node *flat = binary(t, QN_OP_logical_and, binary(t, QN_OP_eq, a, number(t, 0.0)),
                               binary(t, QN_OP_ge, b, number(t, 0.0)));
        give(t, 1, except_where(t, flat, mul(t, t->dy, mul(t, t->y, unary(t, QN_OP_log, a)))));
    }
}

static void extreme_of_two(qn_grad_task *t, qn_op better)
{
    qn_node *tie = binary(t, QN_OP_eq, t->src[0], t->src[1]), *half = times(t, t->dy, 0.5);
    for (int i = 0; i < 2; i++) {
        if (!t->wanted[i]) continue;
        qn_node *wins = binary(t, better, t->src[i], t->src[1 - i]);
        give(t, i, qn__where(t->g, tie, half, only_where(t, wins, t->dy)));
    }
}

void qn__grad_maximum(qn_grad_task *t) { extreme_of_two(t, QN_OP_gt); }
void qn__grad_minimum(qn_grad_task *t) { extreme_of_two(t, QN_OP_lt); }

void qn__grad_atan2(qn_grad_task *t)
{
    qn_node *a = t->src[0], *b = t->src[1], *sum = add(t, square(t, a), square(t, b));
    qn_node *rest = except_where(t, binary(t, QN_OP_eq, sum, number(t, 0.0)), divide(t, t->dy, sum));
    if (t->wanted[0]) give(t, 0, mul(t, rest, b));
    if (t->wanted[1]) give(t, 1, neg(t, mul(t, rest, a)));
}

/* sources: condition, a, b */
void qn__grad_where(qn_grad_task *t)
{
    if (t->wanted[1]) give(t, 1, only_where(t, t->src[0], t->dy));
    if (t->wanted[2]) give(t, 2, except_where(t, t->src[0], t->dy));
}

void qn__grad_masked_fill(qn_grad_task *t) { t->dx[0] = qn__masked_fill(t->g, t->dy, t->src[1], qn__value(0.0)); }

/* y = a + c (b - a) */
void qn__grad_lerp(qn_grad_task *t)
{
    qn_node *c = t->src[2];
    if (t->wanted[0]) give(t, 0, mul(t, t->dy, sub(t, number(t, 1.0), c)));
    if (t->wanted[1]) give(t, 1, mul(t, t->dy, c));
    if (t->wanted[2]) give(t, 2, mul(t, t->dy, sub(t, t->src[1], t->src[0])));
}

void qn__grad_addcmul(qn_grad_task *t)
{
    const double v = ((const qn_value_attrs *)t->attrs)->value;
    if (t->wanted[0]) give(t, 0, t->dy);
    if (t->wanted[1]) give(t, 1, times(t, mul(t, t->dy, t->src[2]), v));
    if (t->wanted[2]) give(t, 2, times(t, mul(t, t->dy, t->src[1]), v));
}

void qn__grad_addcdiv(qn_grad_task *t)
{
    const double v = ((const qn_value_attrs *)t->attrs)->value;
    if (t->wanted[0]) give(t, 0, t->dy);
    if (!t->wanted[1] && !t->wanted[2]) return;
    qn_node *part = divide(t, times(t, t->dy, v), t->src[2]);
    if (t->wanted[1]) give(t, 1, part);
    if (t->wanted[2]) give(t, 2, neg(t, divide(t, mul(t, part, t->src[1]), t->src[2])));
}

/* As PyTorch: da = (a - b) / max(a (1 - a), 1e-12), which a saturated wrong answer still moves; db is infinite there.
 */
void qn__grad_binary_cross_entropy(qn_grad_task *t)
{
    qn_node *a = t->src[0], *rest = neg(t, plus(t, a, -1.0));
    if (t->wanted[0]) {
        qn_node *slope = binary(t, QN_OP_maximum, mul(t, a, rest), number(t, 1e-12));
        give(t, 0, mul(t, t->dy, divide(t, sub(t, a, t->src[1]), slope)));
    }
    if (t->wanted[1]) give(t, 1, mul(t, t->dy, sub(t, unary(t, QN_OP_log, rest), unary(t, QN_OP_log, a))));
}
