/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/math.c -- functions of floats and sums over them, as kernel/math.h computes them, element by element. */
#include "cpu/ref/ref.h"
#include "backend/numbers/exp.h"
#include "cpu/kernel/math_const.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MAP1(name, expr) \
    void qn__ref_##name(float *y, const float *x, int64_t n) \
    { \
        for (int64_t i = 0; i < n; i++) y[i] = expr; \
    }
#define MAP2(name, expr) \
    void qn__ref_##name(float *y, const float *a, const float *b, int64_t n) \
    { \
        for (int64_t i = 0; i < n; i++) y[i] = expr; \
    }

/* clang-format off */
MAP2(sub_f32, a[i] - b[i])
MAP2(div_f32, a[i] / b[i])
MAP2(maximum_f32, a[i] > b[i] || isnan(a[i]) ? a[i] : b[i])
MAP2(minimum_f32, a[i] < b[i] || isnan(a[i]) ? a[i] : b[i])
MAP1(sqrt_f32, sqrtf(x[i]))
MAP1(floor_f32, floorf(x[i]))
MAP1(ceil_f32, ceilf(x[i]))
MAP1(round_f32, rintf(x[i]))
MAP1(trunc_f32, truncf(x[i]))
/* clang-format on */

void qn__ref_clamp_f32(float *y, const float *x, float lo, float hi, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float up = x[i] < lo ? lo : x[i];
        y[i] = hi < up ? hi : up;
    }
}

/* The sum of one exponential is the exponential. */
static float exp_f32(float x)
{
    float y;
    qn__ref_exp_sum_f32(&y, &x, 0, 1);
    return y;
}

/* log2 wants log(m) / ln 2, and adds e after the product */
static float log_of(float x, bool base_2)
{
    if (isnan(x) || x < 0) return NAN;
    if (x == 0) return -INFINITY;
    if (x > FLT_MAX) return x;
    const bool tiny = x < QN_LOG_TINY;
    const float up = tiny ? x * 0x1p23f : x;
    int32_t bits;
    memcpy(&bits, &up, 4);
    const int32_t n = (bits - QN_LOG_BITS) >> 23, m_bits = (int32_t)((uint32_t)bits - ((uint32_t)n << 23));
    const float e = tiny ? (float)n - 23 : (float)n;
    float m;
    memcpy(&m, &m_bits, 4);
    const float f = m - 1, z = f * f;
    static const float c[] = {QN_LOG_C7, QN_LOG_C6, QN_LOG_C5, QN_LOG_C4, QN_LOG_C3, QN_LOG_C2, QN_LOG_C1, QN_LOG_C0};
    float p = QN_LOG_C8;
    for (int k = 0; k < 8; k++) p = fmaf(p, f, c[k]);
    p = f * z * p;
    if (!base_2) p = fmaf(e, QN_LOG_LN2_LO, p);
    p = f + fmaf(-0.5f, z, p);
    return base_2 ? fmaf(p, QN_LOG2E, e) : fmaf(e, QN_LOG_LN2_HI, p);
}

static float log_f32(float x) { return log_of(x, false); }

static float log1p_f32(float x)
{
    if (fabsf(x) < QN_LOG_TINY) return x;
    const float u = 1 + x, log_u = log_f32(u);
    return u < QN_LOG_LEAST || u > FLT_MAX ? log_u : log_u + (x - (u - 1)) / u;
}

static float expm1_f32(float x)
{
    if (isnan(x) || fabsf(x) < QN_LOG_TINY) return x;
    if (fabsf(x) >= QN_EXPM1_NEAR) return exp_f32(x) - 1;
    static const float c[] = {QN_EXPM1_C4, QN_EXPM1_C3, QN_EXPM1_C2, QN_EXPM1_C1, QN_EXPM1_C0, 0.5f};
    float p = QN_EXPM1_C5;
    for (int k = 0; k < 6; k++) p = fmaf(p, x, c[k]);
    return fmaf(x * x, p, x);
}

/* ---- angles ---- */

float qn__far_sin(float x) { return (float)sin((double)x); }
float qn__far_cos(float x) { return (float)cos((double)x); }
float qn__far_tan(float x) { return (float)tan((double)x); }

/* x = n pi/2 + r */
static float rest_of_angle(float x, uint32_t *n)
{
    const float t = fmaf(x, QN_2_PI, QN_EXP_MAGIC), whole = t - QN_EXP_MAGIC;
    memcpy(n, &t, 4);
    return fmaf(whole, -QN_PI_2_C, fmaf(whole, -QN_PI_2_B, fmaf(whole, -QN_PI_2_A, x)));
}

static float wave(float x, uint32_t quarters)
{
    uint32_t n;
    const float r = rest_of_angle(x, &n), z = r * r;
    const uint32_t q = n + quarters;
    float y;
    if (q & 1)
        y = fmaf(z * z, fmaf(fmaf(QN_COS_C2, z, QN_COS_C1), z, QN_COS_C0), fmaf(-0.5f, z, 1));
    else
        y = fmaf(r * z, fmaf(fmaf(QN_SIN_C2, z, QN_SIN_C1), z, QN_SIN_C0), r);
    return q & 2 ? -y : y;
}

static float sin_f32(float x)
{
    if (!(fabsf(x) < QN_FAR_ANGLE)) return qn__far_sin(x);
    return fabsf(x) < QN_SMALL_ANGLE ? x : wave(x, 0);
}

static float cos_f32(float x) { return fabsf(x) < QN_FAR_ANGLE ? wave(x, 1) : qn__far_cos(x); }

static float tan_f32(float x)
{
    if (!(fabsf(x) < QN_FAR_ANGLE)) return qn__far_tan(x);
    if (fabsf(x) < QN_SMALL_ANGLE) return x;
    static const float c[] = {QN_TAN_C4, QN_TAN_C3, QN_TAN_C2, QN_TAN_C1, QN_TAN_C0};
    uint32_t n;
    const float r = rest_of_angle(x, &n), z = r * r;
    float p = QN_TAN_C5;
    for (int k = 0; k < 5; k++) p = fmaf(p, z, c[k]);
    p = fmaf(r * z, p, r);
    return n & 1 ? -1 / p : p;
}

static float atan_f32(float x)
{
    if (isnan(x)) return x;
    const float a = fabsf(x);
    const bool high = a > QN_TAN_3PI_8, low = a > QN_TAN_PI_8;
    const float v = high  ? -1 / a
                    : low ? (a - 1) / (a + 1)
                          : a,
                base = high  ? 2 * QN_PI_4
                       : low ? QN_PI_4
                             : 0,
                z = v * v;
    const float p = fmaf(fmaf(fmaf(QN_ATAN_C3, z, QN_ATAN_C2), z, QN_ATAN_C1), z, QN_ATAN_C0);
    return copysignf(base + fmaf(v * z, p, v), x);
}

static float sigmoid_f32(float x) { return 1 / (1 + exp_f32(0 - x)); }

static float tanh_f32(float x)
{
    const float a = fabsf(x), z = x * x;
    if (isnan(x)) return x;
    if (a >= QN_TANH_NEAR) return copysignf(1 - 2 / (exp_f32(a + a) + 1), x);
    float p = fmaf(QN_TANH_C4, z, QN_TANH_C3);
    p = fmaf(p, z, QN_TANH_C2);
    p = fmaf(p, z, QN_TANH_C1);
    p = fmaf(p, z, QN_TANH_C0);
    return fmaf(p * z, x, x);
}

static float erf_f32(float x)
{
    const float t = fabsf(x), s = x * x;
    if (isnan(x)) return x;
    if (t > QN_ERF_NEAR) {
        float r = fmaf(QN_ERF_F6, t, QN_ERF_F5);
        r = fmaf(r, s, fmaf(QN_ERF_F4, t, QN_ERF_F3));
        r = fmaf(r, t, QN_ERF_F2);
        r = fmaf(r, t, QN_ERF_F1);
        r = fmaf(r, t, QN_ERF_F0);
        return copysignf(1 - exp_f32(t > QN_ERF_ONE ? -100 : fmaf(r, t, -t)), x);
    }
    float p = fmaf(QN_ERF_N5, s, QN_ERF_N4);
    p = fmaf(p, s, QN_ERF_N3);
    p = fmaf(p, s, QN_ERF_N2);
    p = fmaf(p, s, QN_ERF_N1);
    p = fmaf(p, s, QN_ERF_N0);
    return fmaf(p, x, x);
}

static float gelu_tanh_f32(float x) { return x / (1 + exp_f32(x * fmaf(x * x, QN_GELU_C1, QN_GELU_C0))); }

/* clang-format off */
MAP1(exp_f32, exp_f32(x[i]))
MAP1(log_f32, log_f32(x[i]))
MAP1(log2_f32, log_of(x[i], true))
MAP1(log1p_f32, log1p_f32(x[i]))
MAP1(expm1_f32, expm1_f32(x[i]))
MAP1(sin_f32, sin_f32(x[i]))
MAP1(cos_f32, cos_f32(x[i]))
MAP1(tan_f32, tan_f32(x[i]))
MAP1(atan_f32, atan_f32(x[i]))
MAP1(sigmoid_f32, sigmoid_f32(x[i]))
MAP1(tanh_f32, tanh_f32(x[i]))
MAP1(erf_f32, erf_f32(x[i]))
/* clang-format on */
MAP1(gelu_f32, 0.5f * x[i] * (1 + erf_f32(x[i] * QN_SQRT1_2)))
MAP1(gelu_tanh_f32, gelu_tanh_f32(x[i]))

static float gelu_slope(float x)
{
    return fmaf(x, exp_f32(x * x * -0.5f) * QN_1_SQRT2PI, 0.5f * (1 + erf_f32(x * QN_SQRT1_2)));
}

static float gelu_tanh_slope(float x)
{
    const float z = x * x, e = exp_f32(x * fmaf(z, QN_GELU_C1, QN_GELU_C0)), s = 1 / (1 + e);
    const float du = fmaf(z, -3 * QN_GELU_C1, -QN_GELU_C0);
    return fmaf(x * s, (FLT_MAX < e ? FLT_MAX : e) * s * du, s);
}

void qn__ref_gelu_back_f32(float *y, const float *dy, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = dy[i] * gelu_slope(x[i]);
}

void qn__ref_gelu_tanh_back_f32(float *y, const float *dy, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = dy[i] * gelu_tanh_slope(x[i]);
}

/* ---- over an array --------------------------------------------------------------------------- */

static float chains_sum(const float chain[64])
{
    float lane[16];
    for (int j = 0; j < 16; j++) lane[j] = (chain[j] + chain[32 + j]) + (chain[16 + j] + chain[48 + j]);
    return qn__ref_sum16(lane);
}

float qn__ref_sum_f32(const float *x, int64_t n)
{
    float chain[64] = {0};
    for (int64_t i = 0; i < n; i++) chain[i % 64] += x[i];
    return chains_sum(chain);
}

float qn__ref_dev_sq_f32(const float *x, float mean, int64_t n)
{
    float chain[64] = {0};
    for (int64_t i = 0; i < n; i++) chain[i % 64] = fmaf(x[i] - mean, x[i] - mean, chain[i % 64]);
    return chains_sum(chain);
}

float qn__ref_highest_f32(const float *x, int64_t n)
{
    float best = -INFINITY, nan = 0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] > best) best = x[i];
        if (isnan(x[i])) nan = x[i];
    }
    return best + nan;
}

float qn__ref_lowest_f32(const float *x, int64_t n)
{
    float best = INFINITY, nan = 0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < best) best = x[i];
        if (isnan(x[i])) nan = x[i];
    }
    return best + nan;
}
