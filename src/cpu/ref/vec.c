/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/vec.c -- vectors, element by element, with sums in sixteen lanes. fmaf is the C library's: exact with
 * or without the instruction. */
#include "cpu/ref/ref.h"
#include "backend/numbers/exp.h"

#include <math.h>
#include <string.h>

void qn__ref_lanes(float lane[16], const float *x, const float *y, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) lane[j] = fmaf(x[i + j], y[i + j], lane[j]);
    if (i < n) /* lanes past the end add 0 * 0, which makes 0 of a -0, as in the vector levels */
        for (int j = 0; j < 16; j++) lane[j] = i + j < n ? fmaf(x[i + j], y[i + j], lane[j]) : lane[j] + 0.0f;
}

float qn__ref_dot_f32(const float *x, const float *y, int64_t n)
{
    float lane[16] = {0};
    qn__ref_lanes(lane, x, y, n);
    return qn__ref_sum16(lane);
}

float qn__ref_sum_sq_f32(const float *x, int64_t n) { return qn__ref_dot_f32(x, x, n); }

void qn__ref_mul_scale_f32(float *y, const float *x, const float *w, float s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = w ? x[i] * s * w[i] : x[i] * s;
}

void qn__ref_add_f32(float *y, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void qn__ref_mul_f32(float *y, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

void qn__ref_scale_f32(float *y, const float *x, float s, float b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(s, x[i], b);
}

void qn__ref_axpy_f32(float *y, float a, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(a, x[i], y[i]);
}

float qn__ref_max_f32(const float *x, int64_t n)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (x[i] > max) max = x[i];
    return max + 0.0f;
}

static float exp_f32(float x)
{
    if (isnan(x)) return x;
    if (x < QN_EXP_MIN) return 0;
    if (x > QN_EXP_MAX) return INFINITY;

    const float t = fmaf(x, QN_EXP_LOG2E, QN_EXP_MAGIC), n = t - QN_EXP_MAGIC;
    const float r = fmaf(n, -QN_EXP_LN2_LO, fmaf(n, -QN_EXP_LN2_HI, x));
    const float q = fmaf(fmaf(fmaf(fmaf(QN_EXP_C4, r, QN_EXP_C3), r, QN_EXP_C2), r, QN_EXP_C1), r, QN_EXP_C0);
    float p = 1.0f + fmaf(r * r, q, r);
    uint32_t p_bits, t_bits;
    memcpy(&p_bits, &p, 4);
    memcpy(&t_bits, &t, 4);
    p_bits += t_bits << 23;
    memcpy(&p, &p_bits, 4);
    return p;
}

static float silu(float x) { return x / (1.0f + exp_f32(-x)); }

void qn__ref_silu_f32(float *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = silu(x[i]);
}

void qn__ref_swiglu_f32(float *y, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = silu(gate[i]) * up[i];
}

float qn__ref_exp_sum_f32(float *y, const float *x, float max, int64_t n)
{
    float lane[16] = {0};
    for (int64_t i = 0; i < n; i++) {
        y[i] = exp_f32(x[i] - max);
        lane[i % 16] += y[i];
    }
    return qn__ref_sum16(lane);
}

static inline void rotate(float *y0, float *y1, float x0, float x1, const float *cos_sin)
{
    const float c = cos_sin[0], s = cos_sin[1];
    *y0 = fmaf(x0, c, -(x1 * s));
    *y1 = fmaf(x1, c, x0 * s);
}

void qn__ref_rope_norm_f32(float *y, const float *x, const float *cos_sin, int64_t n_pairs)
{
    for (int64_t i = 0; i < n_pairs; i++) rotate(&y[2 * i], &y[2 * i + 1], x[2 * i], x[2 * i + 1], cos_sin + 2 * i);
}

void qn__ref_rope_neox_f32(float *y, const float *x, const float *cos_sin, int64_t n_pairs)
{
    for (int64_t i = 0; i < n_pairs; i++) rotate(&y[i], &y[i + n_pairs], x[i], x[i + n_pairs], cos_sin + 2 * i);
}
