/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/activation.c -- activations and clamping. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"

#include <math.h>

#define DRIVER(name, i64) \
    static const qn_pw pw_##name = {.fn = {name##_f32, name##_f64, i64}}; \
    QN_PW_DRIVER(name, pw_##name)
#define F32(name, call) \
    static void name##_f32(const qn_task *t, void *y, const void *const *x, int64_t n) { call; }

F32(silu, t->kernels->silu_f32(y, x[0], n))
QN_PW_LOOP1(silu_f64, double, double, a / (1 + exp(-a)))
DRIVER(silu, NULL)

/* clang-format off */
F32(relu, t->kernels->clamp_f32(y, x[0], 0, INFINITY, n))
QN_PW_LOOP1(relu_f64, double, double, a > 0 || isnan(a) ? a : 0)
QN_PW_LOOP1(relu_i64, int64_t, int64_t, a > 0 ? a : 0)
DRIVER(relu, relu_i64)
/* clang-format on */

static double clamp(double a, double min, double max)
{
    const double up = a < min ? min : a; /* a max below min wins; NaN is neither below nor above */
    return up > max ? max : up;
}

#define CLAMP ((const qn_clamp_attrs *)t->attrs)
static void clamp_i64(const qn_task *t, void *y_, const void *const *x_, int64_t n)
{
    const int64_t *x = x_[0];
    int64_t *y = y_, lo, hi;
    qn__clamp_bounds(CLAMP, t->dst.dtype, &lo, &hi);
    for (int64_t i = 0; i < n; i++) {
        const int64_t up = x[i] < lo ? lo : x[i];
        y[i] = up > hi ? hi : up;
    }
}

F32(clamp, t->kernels->clamp_f32(y, x[0], (float)CLAMP->min, (float)CLAMP->max, n))
/* clang-format off */
QN_PW_LOOP1(clamp_f64, double, double, clamp(a, CLAMP->min, CLAMP->max))
DRIVER(clamp, clamp_i64)
/* clang-format on */

static double gelu_erf(double a) { return 0.5 * a * (1 + erf(a * 0.70710678118654752440)); }
static double gelu_tanh(double a) { return 0.5 * a * (1 + tanh(0.79788456080286535588 * (a + 0.044715 * a * a * a))); }

static void gelu_f32(const qn_task *t, void *y, const void *const *x, int64_t n)
{
    if (((const qn_gelu_attrs *)t->attrs)->tanh)
        t->kernels->gelu_tanh_f32(y, x[0], n);
    else
        t->kernels->gelu_f32(y, x[0], n);
}
QN_PW_LOOP1(gelu_f64, double, double, ((const qn_gelu_attrs *)t->attrs)->tanh ? gelu_tanh(a) : gelu_erf(a))
DRIVER(gelu, NULL)

static void gelu_back_f32(const qn_task *t, void *y, const void *const *x, int64_t n)
{
    if (((const qn_gelu_attrs *)t->attrs)->tanh)
        t->kernels->gelu_tanh_back_f32(y, x[0], x[1], n);
    else
        t->kernels->gelu_back_f32(y, x[0], x[1], n);
}

static double slope_erf(double a)
{
    return 0.5 * (1 + erf(a * 0.70710678118654752440)) + a * exp(-0.5 * a * a) * 0.39894228040143267794;
}

/* With u = sqrt(2 / pi) (a + 0.044715 a^3) and h = tanh u: (1 + h) / 2 + a (1 - h^2) u' / 2 */
static double slope_tanh(double a)
{
    const double h = tanh(0.79788456080286535588 * (a + 0.044715 * a * a * a)),
                 du = 0.79788456080286535588 * (1 + 3 * 0.044715 * a * a);
    return 0.5 * (1 + h) + 0.5 * a * (1 - h * h) * du;
}

QN_PW_LOOP2(gelu_back_f64, double, double, a *(((const qn_gelu_attrs *)t->attrs)->tanh ? slope_tanh(b) : slope_erf(b)))
DRIVER(gelu_back, NULL)

#define VALUE(T) ((T)((const qn_value_attrs *)t->attrs)->value)
static void elu_f32(const qn_task *t, void *y_, const void *const *x_, int64_t n)
{
    float below[QN_PW_RUN], *y = y_;
    const float alpha = VALUE(float), *x = x_[0];
    t->kernels->expm1_f32(below, x, n);
    for (int64_t i = 0; i < n; i++) {
        const float bent = alpha * below[i];
        y[i] = x[i] > 0 ? x[i] : bent;
    }
}
/* clang-format off */
QN_PW_LOOP1(elu_f64, double, double, a > 0 ? a : VALUE(double) * expm1(a))
DRIVER(elu, NULL)
/* clang-format on */

#define LEAKY(fn, T) \
    static void fn(const qn_task *t, void *y_, const void *const *x_, int64_t n) \
    { \
        const T slope = VALUE(T), *x = x_[0]; \
        T *y = y_; \
        for (int64_t i = 0; i < n; i++) { \
            const T below = slope * x[i]; \
            y[i] = x[i] > 0 ? x[i] : below; \
        } \
    }
/* clang-format off */
LEAKY(leaky_relu_f32, float)
LEAKY(leaky_relu_f64, double)
DRIVER(leaky_relu, NULL)
/* clang-format on */

#define SOFT ((const qn_softplus_attrs *)t->attrs)
static void softplus_f32(const qn_task *t, void *y_, const void *const *x_, int64_t n)
{
    float e[QN_PW_RUN], *y = y_;
    const float beta = (float)SOFT->beta, threshold = (float)SOFT->threshold, *x = x_[0];
    t->kernels->scale_f32(e, x, beta, 0, n);
    t->kernels->exp_f32(e, e, n);
    t->kernels->log1p_f32(e, e, n);
    for (int64_t i = 0; i < n; i++) {
        const float bent = e[i] / beta;
        y[i] = x[i] * beta > threshold ? x[i] : bent;
    }
}
QN_PW_LOOP1(softplus_f64, double, double,
            a * SOFT->beta > SOFT->threshold ? a : log1p(exp(a * SOFT->beta)) / SOFT->beta)
DRIVER(softplus, NULL)
