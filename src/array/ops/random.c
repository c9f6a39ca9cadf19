/* SPDX-License-Identifier: MIT */
/* src/array/ops/random.c -- random numbers on handles. A draw takes its numbers from the counter that the draws before
 * it have moved on, so results follow from the seed and the order of the calls alone. Seed and counter are memory, not
 * attributes: a program that draws in every step records the same graph in every step. */
#include "array/ops/apply.h"
#include <quern/autograd.h>

#include <math.h>
#include <string.h>

void qn_manual_seed(qn_context *ctx, uint64_t seed)
{
    if (ctx == NULL) return;
    ctx->seed = seed;
    ctx->drawn = 0;
}

static qn_tensor *draw_at(qn_context *ctx, int place, const char *name, qn_random_kind kind, qn_dtype dtype,
                          const qn_shape *shape, double a, double b)
{
    qn_random_attrs attrs;
    const int64_t n = qn_shape_numel(shape);
    if (n < 0) {
        char text[192];
        (void)QN_FAIL(qn__err(ctx), invalid, "%s: the shape %s", name, qn_shape_print(shape, text, sizeof text));
        return NULL;
    }
    memset(&attrs, 0, sizeof attrs);
    attrs.a = a;
    attrs.b = b;
    attrs.rank = shape->rank;
    attrs.dtype = (int32_t)dtype;
    attrs.kind = (int32_t)kind;
    memcpy(attrs.dim, shape->dim, (size_t)shape->rank * sizeof attrs.dim[0]);
    const uint64_t key[] = {ctx->seed, ctx->drawn};
    qn_tensor *state = qn__from_data_at(ctx, place, key, qn_shape_of(2), QN_DTYPE_I64),
              *y = qn__plain(QN_OP_random, &attrs, (qn_target){0}, &state, 1);
    qn_release(state);
    if (y != NULL)
        ctx->drawn += (uint64_t)n / 2 + 1; /* enough for elements of any size */
    else
        (void)qn__prefix(ctx->latest, ctx->latest->status, "%s", name);
    return y;
}

/* Where what is made lies, and like x. */
static qn_tensor *draw(qn_context *ctx, const char *name, qn_random_kind kind, qn_dtype dtype, const qn_shape *shape,
                       double a, double b)
{
    return ctx != NULL ? draw_at(ctx, ctx->place, name, kind, dtype, shape, a, b) : NULL;
}
static qn_tensor *draw_like(const qn_tensor *x, const char *name, qn_random_kind kind, double a, double b)
{
    const qn_shape shape = qn_layout_shape(&of(x)->layout);
    return draw_at(of(x)->ctx, qn__place_of(x), name, kind, of(x)->storage->dtype, &shape, a, b);
}

qn_tensor *qn_uniform(qn_context *ctx, qn_shape shape, double from, double to, qn_dtype dtype)
{
    if (!(from <= to) || !isfinite(to - from)) {
        (void)QN_FAIL(qn__err(ctx), invalid, "uniform: from %g to %g", from, to);
        return NULL;
    }
    return draw(ctx, "uniform", QN_RANDOM_uniform, dtype, &shape, from, to);
}

qn_tensor *qn_normal(qn_context *ctx, qn_shape shape, double mean, double deviation, qn_dtype dtype)
{
    if (!(deviation >= 0)) {
        (void)QN_FAIL(qn__err(ctx), invalid, "normal: a deviation of %g, 0 or more expected", deviation);
        return NULL;
    }
    return draw(ctx, "normal", QN_RANDOM_normal, dtype, &shape, mean, deviation);
}

qn_tensor *qn_rand(qn_context *ctx, qn_shape shape, qn_dtype dtype)
{
    return draw(ctx, "rand", QN_RANDOM_uniform, dtype, &shape, 0, 1);
}
qn_tensor *qn_randn(qn_context *ctx, qn_shape shape, qn_dtype dtype)
{
    return draw(ctx, "randn", QN_RANDOM_normal, dtype, &shape, 0, 1);
}

qn_tensor *qn_randint(qn_context *ctx, int64_t low, int64_t high, qn_shape shape, qn_dtype dtype)
{
    if (!qn__number_fits((double)low, dtype, false) || !qn__number_fits((double)high - 1, dtype, false)) {
        (void)QN_FAIL(qn__err(ctx), invalid, "randint: %lld to %lld do not fit %s", (long long)low, (long long)high - 1,
                      (unsigned)dtype < QN_DTYPE_COUNT ? qn_dtype_get(dtype)->name : "the dtype");
        return NULL;
    }
    return draw(ctx, "randint", QN_RANDOM_integer, dtype, &shape, (double)low, (double)high);
}

qn_tensor *qn_randperm(qn_context *ctx, int64_t n)
{
    qn_tensor *keys = draw(ctx, "randperm", QN_RANDOM_bits, QN_DTYPE_I64, &qn_shape_of(n), 0, 0),
              *y = qn_argsort(keys, 0, false);
    qn_release(keys);
    return y;
}

qn_tensor *qn_bernoulli(qn_tensor *probability)
{
    if (!LIVE(probability)) return NULL;
    const qn_dtype dtype = of(probability)->storage->dtype;
    if (!qn__is_real(dtype)) {
        (void)QN_FAIL(qn__err(of(probability)->ctx), invalid, "bernoulli: probabilities are %s, a real type expected",
                      qn_dtype_get(dtype)->name);
        return NULL;
    }
    const qn_range_attrs range = {.min = 0, .max = 1, .strict = QN_STRICT_bernoulli};
    qn_tensor *given = qn_detach(probability), *p = qn__plain(QN_OP_expect_range, &range, (qn_target){0}, &given, 1),
              *u = draw_like(probability, "bernoulli", QN_RANDOM_uniform, 0, 1), *hit = qn_lt(u, p);
    qn_tensor *y = hit != NULL ? qn_to(hit, dtype) : NULL;
    qn_release(given);
    qn_release(p);
    qn_release(u);
    qn_release(hit);
    return y;
}

qn_tensor *qn_dropout(qn_tensor *x, double p, bool training)
{
    if (!LIVE(x)) return NULL;
    if (!(p >= 0 && p <= 1) || !qn__is_real(of(x)->storage->dtype)) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid,
                      "dropout: probability %g of a tensor of %s, 0 to 1 of a real one expected", p,
                      qn_dtype_get(of(x)->storage->dtype)->name);
        return NULL;
    }
    if (!training || p == 0) return qn_to(x, of(x)->storage->dtype);
    qn_tensor *mask = draw_like(x, "dropout", QN_RANDOM_bernoulli, 1 - p, p < 1 ? 1 / (1 - p) : 0),
              *y = qn_mul(x, mask);
    qn_release(mask);
    return y;
}
