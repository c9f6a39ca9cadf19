/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/layers.c -- norms, gates and their gradients, as kernel/layers.h computes them, element by element. */
#include "cpu/ref/ref.h"

#include <float.h>
#include <math.h>

void qn__ref_normalize_f32(float *y, const float *x, float mean, float s, const float *w, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = (x[i] - mean) * s;
        y[i] = !w ? v : b ? fmaf(v, w[i], b[i]) : v * w[i];
    }
}

float qn__ref_dot_dev_f32(const float *a, const float *w, const float *x, float mean, int64_t n)
{
    float chain[64] = {0}, lane[16];
    for (int64_t i = 0; i < n; i++) chain[i % 64] = fmaf(w ? a[i] * w[i] : a[i], x[i] - mean, chain[i % 64]);
    for (int j = 0; j < 16; j++) lane[j] = (chain[j] + chain[32 + j]) + (chain[16 + j] + chain[48 + j]);
    return qn__ref_sum16(lane);
}

void qn__ref_norm_back_f32(float *y, const float *a, const float *w, const float *x, float mean, float p, float q,
                           float r, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(p, w ? a[i] * w[i] : a[i], fmaf(q, x[i] - mean, r));
}

void qn__ref_add_dev_f32(float *y, const float *a, const float *x, float mean, float s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(a[i], (x[i] - mean) * s, y[i]);
}

void qn__ref_swiglu_back_f32(float *d_gate, float *d_up, const float *dy, const float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = gate[i], d = dy[i], u = up[i];
        float e;
        qn__ref_exp_f32(&e, &(float){0 - g}, 1);
        const float s = 1 / (1 + e), slope = s * fmaf(g, (FLT_MAX < e ? FLT_MAX : e) * s, 1);
        d_up[i] = d * (g * s);
        d_gate[i] = d * u * slope;
    }
}
