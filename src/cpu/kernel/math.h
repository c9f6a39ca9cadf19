/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/math.h -- functions of floats and sums over them, over sixteen float lanes, written once. A level's
 * math.c defines FN(name), includes its lanes.h and lanes_math.h, and then this. The constants are in
 * kernel/math_const.h; ref/math.c does the same element by element. */
#include "cpu/dispatch.h"
#include "cpu/kernel/lanes.h"
#include "cpu/kernel/math_const.h"

#include <float.h>
#include <stdbool.h>

#define MAP1(name, expr) \
    void FN(name)(float *y, const float *x, int64_t n) { EACH(n, expr); }
#define MAP2(name, expr) \
    void FN(name)(float *y, const float *a, const float *b, int64_t n) { EACH(n, expr); }

/* ---- exact, or rounded once -------------------------------------------------------------------- */

#define SUB(LOAD, STORE)   STORE(y, l_sub(LOAD(a), LOAD(b)));
#define DIV(LOAD, STORE)   STORE(y, l_div(LOAD(a), LOAD(b)));
#define SQRT(LOAD, STORE)  STORE(y, l_sqrt(LOAD(x)));
/* clang-format off */
MAP2(sub_f32, SUB)
MAP2(div_f32, DIV)
MAP1(sqrt_f32, SQRT)
/* clang-format on */
#define FLOOR(LOAD, STORE) STORE(y, l_floor(LOAD(x)));
#define CEIL(LOAD, STORE)  STORE(y, l_ceil(LOAD(x)));
#define ROUND(LOAD, STORE) STORE(y, l_rint(LOAD(x)));
#define TRUNC(LOAD, STORE) STORE(y, l_trunc(LOAD(x)));
/* clang-format off */
MAP1(floor_f32, FLOOR)
MAP1(ceil_f32, CEIL)
MAP1(round_f32, ROUND)
MAP1(trunc_f32, TRUNC)
/* clang-format on */

/* l_max and l_min give their second operand where either is NaN */
static inline lanes either_max(lanes a, lanes b) { return l_keep_nan(a, l_max(a, b)); }
static inline lanes either_min(lanes a, lanes b) { return l_keep_nan(a, l_min(a, b)); }
#define MAX(LOAD, STORE) STORE(y, either_max(LOAD(a), LOAD(b)));
#define MIN(LOAD, STORE) STORE(y, either_min(LOAD(a), LOAD(b)));
MAP2(maximum_f32, MAX)
MAP2(minimum_f32, MIN)

void FN(clamp_f32)(float *y, const float *x, float lo, float hi, int64_t n)
{
    const lanes low = l_set(lo), high = l_set(hi);
#define BODY(LOAD, STORE) \
    const lanes v = LOAD(x), up = l_if_less(v, low, low, v); \
    STORE(y, l_if_less(high, up, high, up));
    EACH(n, BODY);
#undef BODY
}

/* ---- exponentials and their kin -------------------------------------------------------------- */

/* log2 wants log(m) / ln 2, and adds e after the product */
static inline lanes log_of(lanes x, bool base_2)
{
    const lanes tiny = l_set(QN_LOG_TINY);
    const lanes up = l_if_less(x, tiny, l_mul(x, l_set(0x1p23f)), x); /* subnormal numbers, made normal */
    lanes e, f = l_sub(l_split(up, &e), l_set(1));
    e = l_if_less(x, tiny, l_sub(e, l_set(23)), e);
    const lanes z = l_mul(f, f);
    lanes p = l_fma(l_set(QN_LOG_C8), f, l_set(QN_LOG_C7));
    p = l_fma(p, f, l_set(QN_LOG_C6));
    p = l_fma(p, f, l_set(QN_LOG_C5));
    p = l_fma(p, f, l_set(QN_LOG_C4));
    p = l_fma(p, f, l_set(QN_LOG_C3));
    p = l_fma(p, f, l_set(QN_LOG_C2));
    p = l_fma(p, f, l_set(QN_LOG_C1));
    p = l_fma(p, f, l_set(QN_LOG_C0));
    p = l_mul(l_mul(f, z), p);
    if (!base_2) p = l_fma(e, l_set(QN_LOG_LN2_LO), p);
    p = l_add(f, l_fma(l_set(-0.5f), z, p));
    lanes y = base_2 ? l_fma(p, l_set(QN_LOG2E), e) : l_fma(e, l_set(QN_LOG_LN2_HI), p);
    y = l_if_less(l_set(FLT_MAX), x, l_set(INFINITY), y);
    y = l_if_less(x, l_set(QN_LOG_LEAST), l_set(-INFINITY), y); /* zeros */
    y = l_if_less(x, l_set(0), l_set(NAN), y);
    return l_keep_nan(x, y);
}
static inline lanes log_lanes(lanes x) { return log_of(x, false); }

static inline lanes log1p_lanes(lanes x)
{
    const lanes u = l_add(l_set(1), x), log_u = log_lanes(u);
    const lanes y = l_add(log_u, l_div(l_sub(x, l_sub(u, l_set(1))), u));
    const lanes inner = l_if_less(u, l_set(QN_LOG_LEAST), log_u, l_if_less(l_set(FLT_MAX), u, log_u, y));
    return l_if_less(l_abs(x), l_set(QN_LOG_TINY), x, inner); /* -0 too */
}

static inline lanes expm1_lanes(lanes x)
{
    lanes p = l_fma(l_set(QN_EXPM1_C5), x, l_set(QN_EXPM1_C4));
    p = l_fma(p, x, l_set(QN_EXPM1_C3));
    p = l_fma(p, x, l_set(QN_EXPM1_C2));
    p = l_fma(p, x, l_set(QN_EXPM1_C1));
    p = l_fma(p, x, l_set(QN_EXPM1_C0));
    p = l_fma(p, x, l_set(0.5f));
    const lanes a = l_abs(x), near = l_if_less(a, l_set(QN_LOG_TINY), x, l_fma(l_mul(x, x), p, x));
    return l_keep_nan(x, l_if_less(a, l_set(QN_EXPM1_NEAR), near, l_sub(exp_lanes(x), l_set(1))));
}

/* ---- angles ---------------------------------------------------------------------------------- */

/* x = n pi/2 + r; n in the lowest bits of *t */
static inline lanes rest_of_angle(lanes x, lanes *t)
{
    const lanes magic = l_set(QN_EXP_MAGIC);
    *t = l_fma(x, l_set(QN_2_PI), magic);
    const lanes n = l_sub(*t, magic);
    return l_fma(n, l_set(-QN_PI_2_C), l_fma(n, l_set(-QN_PI_2_B), l_fma(n, l_set(-QN_PI_2_A), x)));
}

/* sin(x + quarters pi/2) */
static inline lanes wave(lanes x, float quarters)
{
    lanes t;
    const lanes r = rest_of_angle(x, &t), z = l_mul(r, r), q = l_add(t, l_set(quarters));
    lanes s = l_fma(l_set(QN_SIN_C2), z, l_set(QN_SIN_C1)), c = l_fma(l_set(QN_COS_C2), z, l_set(QN_COS_C1));
    s = l_fma(s, z, l_set(QN_SIN_C0));
    c = l_fma(c, z, l_set(QN_COS_C0));
    s = l_fma(l_mul(r, z), s, r);
    c = l_fma(l_mul(z, z), c, l_fma(l_set(-0.5f), z, l_set(1)));
    return l_negate_by(l_if_odd(q, c, s), q);
}
static inline lanes sin_lanes(lanes x) { return l_if_less(l_abs(x), l_set(QN_SMALL_ANGLE), x, wave(x, 0)); }
static inline lanes cos_lanes(lanes x) { return wave(x, 1); }

static inline lanes tan_lanes(lanes x)
{
    lanes t;
    const lanes r = rest_of_angle(x, &t), z = l_mul(r, r);
    lanes p = l_fma(l_set(QN_TAN_C5), z, l_set(QN_TAN_C4));
    p = l_fma(p, z, l_set(QN_TAN_C3));
    p = l_fma(p, z, l_set(QN_TAN_C2));
    p = l_fma(p, z, l_set(QN_TAN_C1));
    p = l_fma(p, z, l_set(QN_TAN_C0));
    p = l_fma(l_mul(r, z), p, r);
    return l_if_less(l_abs(x), l_set(QN_SMALL_ANGLE), x, l_if_odd(t, l_div(l_set(-1), p), p));
}

static inline lanes atan_lanes(lanes x)
{
    const lanes a = l_abs(x), one = l_set(1), high = l_set(QN_TAN_3PI_8), low = l_set(QN_TAN_PI_8);
    const lanes up = l_if_less(high, a, l_set(-1), l_if_less(low, a, l_sub(a, one), a));
    const lanes down = l_if_less(high, a, a, l_if_less(low, a, l_add(a, one), one));
    const lanes base = l_if_less(high, a, l_set(2 * QN_PI_4), l_if_less(low, a, l_set(QN_PI_4), l_set(0)));
    const lanes v = l_div(up, down), z = l_mul(v, v);
    lanes p = l_fma(l_set(QN_ATAN_C3), z, l_set(QN_ATAN_C2));
    p = l_fma(p, z, l_set(QN_ATAN_C1));
    p = l_fma(p, z, l_set(QN_ATAN_C0));
    return l_keep_nan(x, l_with_sign(l_add(base, l_fma(l_mul(v, z), p, v)), x));
}

/* Replaces results for angles that are far from 0, infinite or NaN. */
static void mend_far(float *y, const float *x, int64_t n, float (*far)(float))
{
    for (int64_t i = 0; i < n; i++) {
        if (!(fabsf(x[i]) < QN_FAR_ANGLE)) y[i] = far(x[i]);
    }
}
/* y may be x, so x is tested before y is written. */
#define ANGLE(name, expr) \
    void FN(name##_f32)(float *y, const float *x, int64_t n) \
    { \
        for (int64_t i = 0; i < n; i += 16) { \
            const int rest = n - i < 16 ? (int)(n - i) : 16; \
            const lanes v = rest == 16 ? l_load(x + i) : l_load_n(x + i, rest, l_set(0)), made = expr(v); \
            float own[16]; \
            const bool far = !l_all_finite(l_mul(v, l_set(QN_FAR_TO_MAX))); \
            if (far) l_store(own, v); \
            if (rest == 16) \
                l_store(y + i, made); \
            else \
                l_store_n(y + i, rest, made); \
            if (far) mend_far(y + i, own, rest, qn__far_##name); \
        } \
    }
/* clang-format off */
ANGLE(sin, sin_lanes)
ANGLE(cos, cos_lanes)
ANGLE(tan, tan_lanes)
/* clang-format on */

static inline lanes sigmoid_lanes(lanes x) { return l_div(l_set(1), l_add(l_set(1), exp_lanes(l_sub(l_set(0), x)))); }

static inline lanes tanh_lanes(lanes x)
{
    const lanes a = l_abs(x), z = l_mul(x, x);
    lanes p = l_fma(l_set(QN_TANH_C4), z, l_set(QN_TANH_C3));
    p = l_fma(p, z, l_set(QN_TANH_C2));
    p = l_fma(p, z, l_set(QN_TANH_C1));
    p = l_fma(p, z, l_set(QN_TANH_C0));
    const lanes near = l_fma(l_mul(p, z), x, x);
    const lanes far = l_sub(l_set(1), l_div(l_set(2), l_add(exp_lanes(l_add(a, a)), l_set(1))));
    return l_keep_nan(x, l_if_less(a, l_set(QN_TANH_NEAR), near, l_with_sign(far, x)));
}

static inline lanes erf_lanes(lanes x)
{
    const lanes t = l_abs(x), s = l_mul(x, x);
    lanes r = l_fma(l_set(QN_ERF_F6), t, l_set(QN_ERF_F5));
    const lanes u = l_fma(l_set(QN_ERF_F4), t, l_set(QN_ERF_F3));
    r = l_fma(r, s, u);
    r = l_fma(r, t, l_set(QN_ERF_F2));
    r = l_fma(r, t, l_set(QN_ERF_F1));
    r = l_fma(r, t, l_set(QN_ERF_F0));
    r = l_if_less(l_set(QN_ERF_ONE), t, l_set(-100), l_fma(r, t, l_sub(l_set(0), t)));
    const lanes far = l_with_sign(l_sub(l_set(1), exp_lanes(r)), x);
    lanes p = l_fma(l_set(QN_ERF_N5), s, l_set(QN_ERF_N4));
    p = l_fma(p, s, l_set(QN_ERF_N3));
    p = l_fma(p, s, l_set(QN_ERF_N2));
    p = l_fma(p, s, l_set(QN_ERF_N1));
    p = l_fma(p, s, l_set(QN_ERF_N0));
    return l_keep_nan(x, l_if_less(l_set(QN_ERF_NEAR), t, far, l_fma(p, x, x)));
}

static inline lanes gelu_lanes(lanes x)
{
    return l_mul(l_mul(l_set(0.5f), x), l_add(l_set(1), erf_lanes(l_mul(x, l_set(QN_SQRT1_2)))));
}

static inline lanes gelu_tanh_lanes(lanes x) /* (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)) */
{
    const lanes u = l_mul(x, l_fma(l_mul(x, x), l_set(QN_GELU_C1), l_set(QN_GELU_C0)));
    return l_div(x, l_add(l_set(1), exp_lanes(u)));
}

static inline lanes gelu_slope_lanes(lanes x)
{
    const lanes below = l_mul(l_set(0.5f), l_add(l_set(1), erf_lanes(l_mul(x, l_set(QN_SQRT1_2)))));
    const lanes density = l_mul(exp_lanes(l_mul(l_mul(x, x), l_set(-0.5f))), l_set(QN_1_SQRT2PI));
    return l_fma(x, density, below);
}

static inline lanes gelu_tanh_slope_lanes(lanes x)
{
    const lanes z = l_mul(x, x), e = exp_lanes(l_mul(x, l_fma(z, l_set(QN_GELU_C1), l_set(QN_GELU_C0))));
    const lanes s = l_div(l_set(1), l_add(l_set(1), e)), du = l_fma(z, l_set(-3 * QN_GELU_C1), l_set(-QN_GELU_C0));
    return l_fma(l_mul(x, s), l_mul(l_mul(l_min(l_set(FLT_MAX), e), s), du), s);
}

#define EXP(LOAD, STORE)            STORE(y, exp_lanes(LOAD(x)));
#define LOG(LOAD, STORE)            STORE(y, log_lanes(LOAD(x)));
#define LOG2(LOAD, STORE)           STORE(y, log_of(LOAD(x), true));
#define LOG1P(LOAD, STORE)          STORE(y, log1p_lanes(LOAD(x)));
#define EXPM1(LOAD, STORE)          STORE(y, expm1_lanes(LOAD(x)));
#define ATAN(LOAD, STORE)           STORE(y, atan_lanes(LOAD(x)));
#define SIGMOID(LOAD, STORE)        STORE(y, sigmoid_lanes(LOAD(x)));
#define TANH(LOAD, STORE)           STORE(y, tanh_lanes(LOAD(x)));
#define ERF(LOAD, STORE)            STORE(y, erf_lanes(LOAD(x)));
#define GELU(LOAD, STORE)           STORE(y, gelu_lanes(LOAD(x)));
#define GELU_TANH(LOAD, STORE)      STORE(y, gelu_tanh_lanes(LOAD(x)));
/* clang-format off */
MAP1(exp_f32, EXP)
MAP1(log_f32, LOG)
MAP1(log2_f32, LOG2)
MAP1(log1p_f32, LOG1P)
MAP1(expm1_f32, EXPM1)
MAP1(atan_f32, ATAN)
MAP1(sigmoid_f32, SIGMOID)
MAP1(tanh_f32, TANH)
MAP1(erf_f32, ERF)
MAP1(gelu_f32, GELU)
MAP1(gelu_tanh_f32, GELU_TANH)
/* clang-format on */

#define GELU_BACK(LOAD, STORE)      STORE(y, l_mul(LOAD(dy), gelu_slope_lanes(LOAD(x))));
#define GELU_TANH_BACK(LOAD, STORE) STORE(y, l_mul(LOAD(dy), gelu_tanh_slope_lanes(LOAD(x))));
void FN(gelu_back_f32)(float *y, const float *dy, const float *x, int64_t n) { EACH(n, GELU_BACK); }
void FN(gelu_tanh_back_f32)(float *y, const float *dy, const float *x, int64_t n) { EACH(n, GELU_TANH_BACK); }

/* ---- over an array: element i goes to chain i mod 64 ----------------------------------------- */

static inline float chains_sum(const lanes acc[4])
{
    return l_sum(l_add(l_add(acc[0], acc[2]), l_add(acc[1], acc[3])));
}

float FN(sum_f32)(const float *x, int64_t n)
{
    lanes acc[4] = {l_set(0), l_set(0), l_set(0), l_set(0)};
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 4; k++) acc[k] = l_add(acc[k], l_load(x + i + 16 * k));
    for (int k = 0; i < n; i += 16, k++) {
        const int64_t left = n - i;
        acc[k] = l_add(acc[k], left >= 16 ? l_load(x + i) : l_load_n(x + i, (int)left, l_set(0)));
    }
    return chains_sum(acc);
}

float FN(dev_sq_f32)(const float *x, float mean, int64_t n)
{
    const lanes m = l_set(mean);
    lanes acc[4] = {l_set(0), l_set(0), l_set(0), l_set(0)};
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 4; k++) {
            const lanes d = l_sub(l_load(x + i + 16 * k), m);
            acc[k] = l_fma(d, d, acc[k]);
        }
    for (int k = 0; i < n; i += 16, k++) {
        const int64_t left = n - i;
        const lanes d = l_sub(left >= 16 ? l_load(x + i) : l_load_n(x + i, (int)left, m), m);
        const lanes own = left >= 16 ? d : l_first_n((int)left, d);
        acc[k] = l_fma(own, own, acc[k]);
    }
    return chains_sum(acc);
}

/* l_max and l_min skip a NaN in their first operand, so NaN are tracked separately. */
float FN(highest_f32)(const float *x, int64_t n)
{
    lanes best = l_set(-INFINITY), nan = l_set(0);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const lanes v = l_load(x + i);
        best = l_max(v, best);
        nan = l_keep_nan(v, nan);
    }
    if (i < n) {
        const lanes v = l_load_n(x + i, (int)(n - i), l_set(-INFINITY));
        best = l_max(v, best);
        nan = l_keep_nan(v, nan);
    }
    return l_highest(best) + l_sum(nan);
}

float FN(lowest_f32)(const float *x, int64_t n)
{
    lanes best = l_set(INFINITY), nan = l_set(0);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const lanes v = l_load(x + i);
        best = l_min(v, best);
        nan = l_keep_nan(v, nan);
    }
    if (i < n) {
        const lanes v = l_load_n(x + i, (int)(n - i), l_set(INFINITY));
        best = l_min(v, best);
        nan = l_keep_nan(v, nan);
    }
    return l_lowest(best) + l_sum(nan);
}

void FN(math_init)(qn_kernels *kernels)
{
#define SET(name) kernels->name = FN(name);
    /* clang-format off */
    SET(sub_f32) SET(div_f32) SET(sqrt_f32) SET(maximum_f32) SET(minimum_f32) SET(clamp_f32)
    SET(floor_f32) SET(ceil_f32) SET(round_f32) SET(trunc_f32) SET(log2_f32) SET(log1p_f32) SET(expm1_f32)
    SET(sin_f32) SET(cos_f32) SET(tan_f32) SET(atan_f32)
    SET(exp_f32) SET(log_f32) SET(sigmoid_f32) SET(tanh_f32) SET(erf_f32) SET(gelu_f32) SET(gelu_tanh_f32)
    SET(gelu_back_f32) SET(gelu_tanh_back_f32)
    SET(sum_f32) SET(dev_sq_f32) SET(highest_f32) SET(lowest_f32)
    /* clang-format on */
#undef SET
}
