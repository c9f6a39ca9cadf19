/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/arithmetic.c -- sums, products, quotients, remainders, powers and extremes of two or three
 * sources. Integers wrap around; a division of an integer by 0 gives 0, and ends the run of a strict node. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"

#include <math.h>

#define KERNEL2(name) \
    static void name##_f32(const qn_task *t, void *y, const void *const *x, int64_t n) \
    { \
        t->kernels->name##_f32(y, x[0], x[1], n); \
    }
#define DRIVER(name, i64) \
    static const qn_pw pw_##name = {.fn = {name##_f32, name##_f64, i64}}; \
    QN_PW_DRIVER(name, pw_##name)

/* ---- sums and products ----------------------------------------------------------------------- */

static int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* clang-format off */
KERNEL2(add)
QN_PW_LOOP2(add_f64, double, double, a + b)
QN_PW_LOOP2(add_i64, int64_t, int64_t, wrap_add(a, b))
DRIVER(add, add_i64)
KERNEL2(sub)
QN_PW_LOOP2(sub_f64, double, double, a - b)
QN_PW_LOOP2(sub_i64, int64_t, int64_t, wrap_sub(a, b))
DRIVER(sub, sub_i64)
KERNEL2(mul)
QN_PW_LOOP2(mul_f64, double, double, a * b)
QN_PW_LOOP2(mul_i64, int64_t, int64_t, wrap_mul(a, b))
DRIVER(mul, mul_i64)
KERNEL2(div)
QN_PW_LOOP2(div_f64, double, double, a / b)
DRIVER(div, NULL)
QN_PW_LOOP3(lerp_f32, float, float, fabsf(c) < 0.5f ? a + c * (b - a) : b - (b - a) * (1.0f - c))
QN_PW_LOOP3(lerp_f64, double, double, fabs(c) < 0.5 ? a + c * (b - a) : b - (b - a) * (1.0 - c))
DRIVER(lerp, NULL)
/* clang-format on */

#define VALUE(T) ((T)((const qn_value_attrs *)t->attrs)->value)
#define WHOLE    (((const qn_value_attrs *)t->attrs)->whole)
/* clang-format off */
QN_PW_LOOP3(addcmul_f32, float, float, a + VALUE(float) * b * c)
QN_PW_LOOP3(addcmul_f64, double, double, a + VALUE(double) * b * c)
/* clang-format on */
QN_PW_LOOP3(addcmul_i64, int64_t, int64_t, wrap_add(a, wrap_mul(wrap_mul(WHOLE, b), c)))
/* clang-format off */
DRIVER(addcmul, addcmul_i64)
QN_PW_LOOP3(addcdiv_f32, float, float, a + VALUE(float) * b / c)
QN_PW_LOOP3(addcdiv_f64, double, double, a + VALUE(double) * b / c)
DRIVER(addcdiv, NULL)
/* clang-format on */

/* ---- extremes: NaN wins ---------------------------------------------------------------------- */

/* clang-format off */
KERNEL2(maximum)
QN_PW_LOOP2(maximum_f64, double, double, a > b || isnan(a) ? a : b)
QN_PW_LOOP2(maximum_i64, int64_t, int64_t, a > b ? a : b)
DRIVER(maximum, maximum_i64)
KERNEL2(minimum)
QN_PW_LOOP2(minimum_f64, double, double, a < b || isnan(a) ? a : b)
QN_PW_LOOP2(minimum_i64, int64_t, int64_t, a < b ? a : b)
DRIVER(minimum, minimum_i64)
/* clang-format on */

/* ---- division with remainder: floor_divide rounds down and remainder has the divisor's sign, as in Python;
 * trunc_divide and fmod are C's
 * -------------------------------------------------------------------------------------------------------------- */

static int64_t int_div(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? wrap_sub(0, a) : a / b; }
static int64_t int_fmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
static bool crosses(int64_t a, int64_t b) { return int_fmod(a, b) != 0 && (a < 0) != (b < 0); }

static void check_divisors(const qn_task *t, const int64_t *b, int64_t n)
{
    const int32_t strict = ((const qn_strict_attrs *)t->attrs)->strict;
    if (strict == QN_STRICT_not) return;
    bool zero = false;
    for (int64_t i = 0; i < n; i++) zero |= b[i] == 0;
    if (zero) qn__bad_value(t, strict, "an integer is divided by 0");
}

#define INTEGERS(name) \
    static void name##_i64(const qn_task *t, void *y, const void *const *x, int64_t n) \
    { \
        check_divisors(t, x[1], n); /* y may be x[0] */ \
        name##_whole(t, y, x, n); \
    }

#define DIVISIONS(T, s) \
    static T floor_div##s(T a, T b) \
    { \
        if (b == 0) return a / b; \
        const T mod = fmod##s(a, b); \
        T q = (a - mod) / b; \
        if (mod != 0 && (b < 0) != (mod < 0)) q -= 1; \
        if (q == 0) return copysign##s(0, a / b); \
        const T down = floor##s(q); /* q is whole but for rounding */ \
        return q - down > (T)0.5 ? down + 1 : down; \
    } \
    static T floor_mod##s(T a, T b) \
    { \
        const T mod = fmod##s(a, b); \
        return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod; \
    }
DIVISIONS(float, f)
DIVISIONS(double, )

QN_PW_LOOP2(floor_divide_f32, float, float, floor_divf(a, b))
QN_PW_LOOP2(floor_divide_f64, double, double, floor_div(a, b))
QN_PW_LOOP2(floor_divide_whole, int64_t, int64_t, wrap_sub(int_div(a, b), crosses(a, b)))
INTEGERS(floor_divide)
DRIVER(floor_divide, floor_divide_i64)

/* clang-format off */
QN_PW_LOOP2(trunc_divide_f32, float, float, truncf(a / b))
QN_PW_LOOP2(trunc_divide_f64, double, double, trunc(a / b))
QN_PW_LOOP2(trunc_divide_whole, int64_t, int64_t, int_div(a, b))
INTEGERS(trunc_divide)
DRIVER(trunc_divide, trunc_divide_i64)
/* clang-format on */

QN_PW_LOOP2(remainder_f32, float, float, floor_modf(a, b))
QN_PW_LOOP2(remainder_f64, double, double, floor_mod(a, b))
QN_PW_LOOP2(remainder_whole, int64_t, int64_t, int_fmod(a, b) + (crosses(a, b) ? b : 0))
INTEGERS(remainder)
DRIVER(remainder, remainder_i64)

/* clang-format off */
QN_PW_LOOP2(fmod_f32, float, float, fmodf(a, b))
QN_PW_LOOP2(fmod_f64, double, double, fmod(a, b))
QN_PW_LOOP2(fmod_whole, int64_t, int64_t, int_fmod(a, b))
INTEGERS(fmod)
DRIVER(fmod, fmod_i64)
/* clang-format on */

/* ---- powers and angles ----------------------------------------------------------------------- */

static int64_t int_pow(int64_t base, int64_t e)
{
    if (e < 0) return base == 1 ? 1 : base == -1 ? (e % 2 ? -1 : 1) : 0;
    int64_t y = 1;
    for (; e > 0; e /= 2, base = wrap_mul(base, base))
        if (e % 2) y = wrap_mul(y, base);
    return y;
}

QN_PW_LOOP2(pow_each_f32, float, float, powf(a, b))

/* One exponent for all is often a square or a cube: products, as in PyTorch. */
static void pow_f32(const qn_task *t, void *y_, const void *const *x, int64_t n)
{
    const float *a = x[0], *b = x[1];
    const bool one = n > 0 && qn_layout_numel(&t->src[1].layout) == 1;
    float *y = y_;
    if (one && b[0] == 2)
        t->kernels->mul_f32(y, a, a, n);
    else if (one && b[0] == 3)
        for (int64_t i = 0; i < n; i++) y[i] = a[i] * a[i] * a[i];
    else
        pow_each_f32(t, y, x, n);
}
/* clang-format off */
QN_PW_LOOP2(pow_f64, double, double, pow(a, b))
QN_PW_LOOP2(pow_i64, int64_t, int64_t, int_pow(a, b))
DRIVER(pow, pow_i64)
QN_PW_LOOP2(atan2_f32, float, float, atan2f(a, b))
QN_PW_LOOP2(atan2_f64, double, double, atan2(a, b))
DRIVER(atan2, NULL)
/* clang-format on */
