/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/attn.c -- the kernels of attention, as kernels.def defines them. */
#include "cpu/ref/ref.h"

#include <math.h>
#include <string.h>

static float exp_of(float x)
{
    float y;
    qn__ref_exp_sum_f32(&y, &x, 0, 1);
    return y;
}

static float higher(float x, float y) { return x > y ? x : y; } /* y where either is NaN */

void qn__ref_attn_soften(float *s, int64_t n_lanes, int64_t n, int64_t full_begin, int64_t full_end,
                         const int32_t *begin, const int32_t *end, float *max, float *sum)
{
    (void)full_begin;
    (void)full_end;
    for (int64_t l = 0; l < n_lanes; l++) {
        max[l] = -INFINITY;
        sum[l] = 0;
        for (int64_t c = begin[l]; c < end[l]; c++) max[l] = higher(s[c * n_lanes + l], max[l]);
        max[l] += 0.0f; /* no -0 */
        for (int64_t c = 0; c < n; c++) {
            float *p = s + c * n_lanes + l;
            *p = c >= begin[l] && c < end[l] ? exp_of(*p - max[l]) : 0;
            if (c >= begin[l] && c < end[l]) sum[l] += *p;
        }
    }
}

void qn__ref_attn_add_some(float *y, int64_t n, const float *v, const float *p, int64_t n_lanes, int64_t c,
                           const int32_t *begin, const int32_t *end)
{
    for (int64_t l = 0; l < n_lanes; l++)
        for (int64_t j = 0; j < n && begin[l] <= c && c < end[l]; j++)
            y[j * n_lanes + l] = fmaf(v[j], p[l], y[j * n_lanes + l]);
}

void qn__ref_attn_merge(float *y, float *max, float *sum, const float *y1, const float *max1, const float *sum1,
                        int64_t n_lanes, int64_t n)
{
    for (int64_t l = 0; l < n_lanes; l++) {
        if (sum1[l] == 0) continue;
        const float m = higher(max[l], max1[l]), a = exp_of(max[l] - m), b = exp_of(max1[l] - m);
        max[l] = m;
        sum[l] = fmaf(sum1[l], b, sum[l] * a);
        for (int64_t j = l; j < n * n_lanes; j += n_lanes) y[j] = fmaf(y1[j], b, y[j] * a);
    }
}

void qn__ref_transpose_f32(float *y, int64_t y_stride, const float *x, int64_t x_stride, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) y[c * y_stride + r] = x[r * x_stride + c];
}

#define GATHER(name, widen) \
    void qn__ref_##name(float *y, int64_t y_stride, const void *base, int64_t cell_bytes, const int32_t *cell, \
                        int64_t n_cells, int64_t n) \
    { \
        for (int64_t c = 0; c < n_cells; c++) \
            widen(y + c * y_stride, (const void *)((const uint8_t *)base + cell[c] * cell_bytes), n); \
    }
/* clang-format off */
GATHER(gather_f16, qn__ref_f16_to_f32)
GATHER(gather_bf16, qn__ref_bf16_to_f32)
GATHER(gather_q8_0, qn__ref_q8_0_to_f32)
/* clang-format on */
