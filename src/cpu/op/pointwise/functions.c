/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/functions.c -- functions of one number: signs, roundings, powers, exponentials, logarithms,
 * angles. F32 uses the kernel of kernels.def where there is one; the rest is the C library's. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"

#include <math.h>

#define DRIVER(name, i64) \
    static const qn_pw pw_##name = {.fn = {name##_f32, name##_f64, i64}}; \
    QN_PW_DRIVER(name, pw_##name)
/* clang-format off */
#define NUMBERS(name, f32, f64, i64) \
    QN_PW_LOOP1(name##_f32, float, float, f32) \
    QN_PW_LOOP1(name##_f64, double, double, f64) \
    QN_PW_LOOP1(name##_i64, int64_t, int64_t, i64) \
    DRIVER(name, name##_i64)
#define REAL(name, f32, f64) \
    QN_PW_LOOP1(name##_f32, float, float, f32) \
    QN_PW_LOOP1(name##_f64, double, double, f64) \
    DRIVER(name, NULL)
/* clang-format on */
#define KERNEL_F32(name) \
    static void name##_f32(const qn_task *t, void *y, const void *const *x, int64_t n) \
    { \
        t->kernels->name##_f32(y, x[0], n); \
    }
/* clang-format off */
#define KERNEL(name, f64) \
    KERNEL_F32(name) \
    QN_PW_LOOP1(name##_f64, double, double, f64) \
    DRIVER(name, NULL)
#define ROUNDED(name, f64) \
    KERNEL_F32(name) \
    QN_PW_LOOP1(name##_f64, double, double, f64) \
    QN_PW_LOOP1(name##_i64, int64_t, int64_t, a) \
    DRIVER(name, name##_i64)
/* clang-format on */

static int64_t wrap_neg(int64_t a) { return (int64_t)(0 - (uint64_t)a); }

NUMBERS(neg, -a, -a, wrap_neg(a))
NUMBERS(abs, fabsf(a), fabs(a), a < 0 ? wrap_neg(a) : a)
NUMBERS(sign, (float)((a > 0) - (a < 0)), (double)((a > 0) - (a < 0)), (a > 0) - (a < 0))
NUMBERS(square, a *a, a *a, (int64_t)((uint64_t)a *(uint64_t)a))
ROUNDED(floor, floor(a))
ROUNDED(ceil, ceil(a))
ROUNDED(round, rint(a)) /* half to even, the rounding mode in force */
ROUNDED(trunc, trunc(a))
REAL(frac, a - truncf(a), a - trunc(a))

/* clang-format off */
KERNEL(exp, exp(a))
KERNEL(log, log(a))
KERNEL(sqrt, sqrt(a))
KERNEL(tanh, tanh(a))
KERNEL(erf, erf(a))
/* clang-format on */
KERNEL(sigmoid, 1 / (1 + exp(-a)))
/* clang-format off */
KERNEL(expm1, expm1(a))
KERNEL(log1p, log1p(a))
KERNEL(log2, log2(a))
REAL(log10, log10f(a), log10(a))
REAL(rsqrt, 1.0f / sqrtf(a), 1.0 / sqrt(a))
REAL(reciprocal, 1.0f / a, 1.0 / a)
KERNEL(sin, sin(a))
KERNEL(cos, cos(a))
KERNEL(tan, tan(a))
REAL(asin, asinf(a), asin(a))
REAL(acos, acosf(a), acos(a))
KERNEL(atan, atan(a))
REAL(sinh, sinhf(a), sinh(a))
REAL(cosh, coshf(a), cosh(a))
REAL(asinh, asinhf(a), asinh(a))
REAL(acosh, acoshf(a), acosh(a))
REAL(atanh, atanhf(a), atanh(a))
/* clang-format on */
