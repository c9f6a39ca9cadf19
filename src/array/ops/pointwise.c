/* SPDX-License-Identifier: MIT */
/* src/array/ops/pointwise.c -- operations element by element that have options or a condition. */
#include "array/ops/apply.h"

#include <math.h>
#include <string.h>

/* What broadcasts by the op's own rule, with a condition or mask in front or behind that keeps its dtype. */
qn_tensor *qn_where(qn_tensor *cond, qn_tensor *a, qn_tensor *b)
{
    qn_tensor *in[] = {a, b}, *made[2];
    qn_dtype dtype;
    qn_context *ctx = qn__same_context("where", (qn_tensor *[]){cond, a, b}, 3);
    if (ctx == NULL || !qn__make_room(ctx) || !qn__result_type("where", in, 2, &dtype) ||
        !qn__convert(in, 2, dtype, made))
        return NULL;
    qn_tensor *y = qn__plain(QN_OP_where, NULL, (qn_target){0}, (qn_tensor *[]){cond, in[0], in[1]}, 3);
    qn_release(made[0]);
    qn_release(made[1]);
    return y;
}

static bool is_real_bound(double x) { return isfinite(x) && x != floor(x); }

/* A bound that is NaN makes everything NaN, and flat. */
static qn_tensor *clamp_to_nan(qn_tensor *x, bool in_place)
{
    if (in_place && !qn__is_real(of(x)->storage->dtype)) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "clamp_: the bounds are no numbers of %s",
                      qn_dtype_get(of(x)->storage->dtype)->name);
        return NULL;
    }
    if (in_place) return qn_add_number_(x, (double)NAN) != NULL ? qn_mul_number_(x, 0) : NULL;
    qn_tensor *nan = qn_add_number(x, (double)NAN), *y = nan != NULL ? qn_mul_number(nan, 0) : NULL;
    qn_release(nan);
    return y;
}

static qn_tensor *clamp(qn_tensor *x, double min, double max, bool in_place)
{
    if (!LIVE(x)) return NULL;
    if (isnan(min) || isnan(max)) return clamp_to_nan(x, in_place);
    const qn_dtype dtype = qn__with_number(of(x)->storage->dtype, is_real_bound(min) || is_real_bound(max));
    qn_tensor *in = qn__make_room(of(x)->ctx) ? qn__cast(x, dtype) : NULL;
    if (in == NULL) return NULL;
    qn_clamp_attrs attrs = {min, max};
    qn_tensor *y = qn__plain(QN_OP_clamp, &attrs, (qn_target){in_place ? x : NULL, true}, &in, 1);
    if (in != x) qn_release(in);
    return y;
}

qn_tensor *qn_clamp(qn_tensor *x, double min, double max) { return clamp(x, min, max, false); }
qn_tensor *qn_clamp_(qn_tensor *x, double min, double max) { return clamp(x, min, max, true); }

qn_tensor *qn_gelu(qn_tensor *x, bool tanh)
{
    return qn__plain(QN_OP_gelu, &(qn_gelu_attrs){tanh}, (qn_target){0}, &x, 1);
}

static qn_tensor *with_value(qn_op op, double value, qn_target target, qn_tensor *const *src, int n)
{
    const qn_value_attrs attrs = qn__value(value);
    return qn__plain(op, &attrs, target, src, n);
}

qn_tensor *qn_elu(qn_tensor *x, double alpha) { return with_value(QN_OP_elu, alpha, (qn_target){0}, &x, 1); }
qn_tensor *qn_leaky_relu(qn_tensor *x, double slope)
{
    return with_value(QN_OP_leaky_relu, slope, (qn_target){0}, &x, 1);
}

qn_tensor *qn_softplus(qn_tensor *x, double beta, double threshold)
{
    return qn__plain(QN_OP_softplus, &(qn_softplus_attrs){beta, threshold}, (qn_target){0}, &x, 1);
}

qn_tensor *qn_lerp(qn_tensor *a, qn_tensor *b, qn_tensor *weight)
{
    return qn__plain(QN_OP_lerp, NULL, (qn_target){0}, (qn_tensor *[]){a, b, weight}, 3);
}

qn_tensor *qn_lerp_number(qn_tensor *a, qn_tensor *b, double weight)
{
    if (!LIVE(a) || !LIVE(b)) return NULL;
    qn_tensor *w = qn__scalar(of(a)->ctx, qn__place_of(a), weight, of(a)->storage->dtype), *y = qn_lerp(a, b, w);
    qn_release(w);
    return y;
}

/* The three promote together; integers take a whole value only. */
static qn_tensor *with_three(qn_op op, qn_types types, qn_tensor *x, qn_tensor *a, qn_tensor *b, double value)
{
    const qn_value_attrs attrs = qn__value(value);
    return qn__compute(op, types, &attrs, (qn_target){0}, (qn_tensor *[]){x, a, b}, 3);
}

qn_tensor *qn_addcmul(qn_tensor *x, qn_tensor *a, qn_tensor *b, double value)
{
    return with_three(QN_OP_addcmul, QN_TYPES_arith, x, a, b, value);
}

qn_tensor *qn_addcdiv(qn_tensor *x, qn_tensor *a, qn_tensor *b, double value)
{
    return with_three(QN_OP_addcdiv, QN_TYPES_arith, x, a, b, value);
}

static qn_tensor *masked_fill(qn_tensor *x, qn_tensor *mask, double value, bool in_place)
{
    if (!LIVE(x)) return NULL;
    if (!qn__is_real(of(x)->storage->dtype) && !(value == floor(value) && isfinite(value))) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "masked_fill: the number %g cannot be stored in %s", value,
                      qn_dtype_get(of(x)->storage->dtype)->name);
        return NULL;
    }
    if (!qn__number_check(of(x)->ctx, "masked_fill", value, of(x)->storage->dtype)) return NULL;
    return with_value(QN_OP_masked_fill, value, (qn_target){in_place ? x : NULL, true}, (qn_tensor *[]){x, mask}, 2);
}

/* Both broadcast; the op itself has x's shape. */
qn_tensor *qn_masked_fill(qn_tensor *x, qn_tensor *mask, double value)
{
    if (qn__same_context("masked_fill", (qn_tensor *[]){x, mask}, 2) == NULL) return NULL;
    const qn_shape have = qn_layout_shape(&of(x)->layout), other = qn_layout_shape(&of(mask)->layout);
    qn_shape shape;
    if (qn_shape_broadcast(&have, &other, &shape, NULL) != QN_OK || qn_shape_equal(&shape, &have))
        return masked_fill(x, mask, value, false);
    qn_tensor *there = qn__number_beside(x, mask), *wide = qn_expand(there, shape),
              *y = masked_fill(wide, mask, value, false);
    if (there != x) qn_release(there);
    qn_release(wide);
    return y;
}

qn_tensor *qn_masked_fill_(qn_tensor *x, qn_tensor *mask, double value) { return masked_fill(x, mask, value, true); }
