/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/attn_int.c -- the kernels of attention in integers, as kernels.def defines them. */
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

static int16_t to_i16(float x)
{
    return x >= 32767 ? 32767 : x >= -32768 ? (int16_t)rintf(x) : -32768;
} /* NaN: -32768 */

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

/* Lanes whose sums are kept while i runs; n_lanes is a multiple. */
enum { SIDE_BY_SIDE = 16 };

void qn__ref_outer_i16(const qn_outer_i16 *t)
{
    for (int64_t o = 0; o < t->n_out; o++)
        for (int64_t from = 0; from < t->n_lanes; from += SIDE_BY_SIDE) {
            uint32_t sum[SIDE_BY_SIDE] = {0}; /* unsigned: those of rows with a scale of NaN or 0 may wrap; unused */
            for (int64_t i = 0; i < t->n_in; i++) {
                const int16_t *a = t->a + 2 * (o * t->a_out + i * t->a_in), *b = t->b + 2 * (i * t->b_stride + from);
                for (int l = 0; l < SIDE_BY_SIDE; l++)
                    sum[l] += (uint32_t)(a[0] * b[2 * l]) + (uint32_t)(a[1] * b[2 * l + 1]);
            }
            float *y = t->y + o * t->y_stride + from;
            const float *lane_scale = t->lane_scale + from;
            for (int l = 0; l < SIDE_BY_SIDE; l++) {
                const float scale = t->out_scale ? t->out_scale[o] * lane_scale[l] : lane_scale[l];
                y[l] = fmaf((float)(int32_t)sum[l], scale, t->out_start ? t->out_start[o] : y[l]);
            }
        }
}

void qn__ref_attn_score_skinny(float *s, int64_t s_stride, const int16_t *q, int64_t q_stride, const float *q_scale,
                               int64_t n_rows, int16_t *k, const float *k_scale, int16_t *kt, int64_t n_cells,
                               int64_t n)
{
    (void)kt;
    for (int64_t c = 0; c < n_cells; c++)
        for (int64_t r = 0; r < n_rows; r++) {
            uint32_t sum = 0; /* unsigned as above */
            for (int64_t i = 0; i < n; i++) sum += (uint32_t)(q[r * q_stride + i] * k[c * n + i]);
            s[r * s_stride + c] = fmaf((float)(int32_t)sum, q_scale[r] * k_scale[c], s[r * s_stride + c]);
        }
}

float qn__ref_attn_pack_q(int16_t *y, const float *x, float s, int64_t n)
{
    float lane[16] = {0}, highest = 0;
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] * s;
        lane[i % 16] = fmaf(v, v, lane[i % 16]);
        highest = higher(fabsf(v), highest);
    }
    memset(y, 0, (size_t)((n + 15) / 16 * 16) * 2);
    const float square = qn__ref_sum16(lane);
    if (!(square < 0x1p126f)) return NAN;
    const float g = higher(higher(sqrtf(square) * (1 / QN_ATTN_Q_LENGTH), highest * (1 / 32767.0f)), 0x1p-60f);
    for (int64_t i = 0; i < n; i++) y[i] = to_i16(x[i] * s * (1 / g));
    return g;
}

void qn__ref_attn_pack_k(int16_t *y, float *scale, const float *x, int64_t n_cells, int64_t n)
{
    for (int64_t c = 0; c < n_cells; c++, x += n, y += n) {
        const float square = qn__ref_sum_sq_f32(x, n);
        const int power = square < 0x1p126f ? (29 - ((int)(bits_of(square) >> 23) - 127)) >> 1 : 0;
        scale[c] = square < 0x1p126f ? ldexpf(1, -power) : NAN;
        for (int64_t i = 0; i < n; i++) y[i] = to_i16(x[i] * ldexpf(1, power));
    }
}

void qn__ref_attn_pack_v(int16_t *y, float *log_scale, float *weight, const float *x, int64_t n_cells, int64_t n)
{
    for (int64_t c = 0; c < n_cells; c++, x += n) {
        int16_t *to = y + c / 2 * 2 * n + c % 2;
        uint32_t highest = 0;
        for (int64_t i = 0; i < n; i++) {
            const uint32_t u = bits_of(fabsf(x[i]));
            highest = u > highest ? u : highest;
        }
        const int exponent = (int)((highest + 0x100) >> 23) - 127; /* 2^15 - 1/2 would leave int16 */
        const int power = exponent >= 64 ? 0 : exponent < -26 ? 40 : 14 - exponent;
        weight[c] = exponent >= 64 ? NAN : ldexpf(1, power);
        log_scale[c] = exponent >= 64 ? NAN : (float)-power * QN_ATTN_LN2;
        for (int64_t i = 0; i < n; i++) to[2 * i] = to_i16(x[i] * ldexpf(1, power));
        if (c % 2 == 0 && c + 1 == n_cells)
            for (int64_t i = 0; i < n; i++) to[2 * i + 1] = 0;
    }
}

#define PACK_CELLS(format) \
    void qn__ref_attn_pack_k_##format(int16_t *y, float *scale, const void *base, int64_t cell_bytes, \
                                      const int32_t *cell, int64_t n_cells, int64_t n) \
    { \
        float x[256]; \
        for (int64_t c = 0; c < n_cells; c++) { \
            qn__ref_gather_##format(x, n, base, cell_bytes, cell + c, 1, n); \
            qn__ref_attn_pack_k(y + c * n, scale + c, x, 1, n); \
        } \
    } \
    void qn__ref_attn_pack_v_##format(int16_t *y, float *log_scale, float *weight, const void *base, \
                                      int64_t cell_bytes, const int32_t *cell, int64_t n_cells, int64_t n) \
    { \
        float x[2 * 256]; \
        for (int64_t c = 0; c < n_cells; c += 2) { \
            const int64_t two = n_cells - c < 2 ? 1 : 2; \
            qn__ref_gather_##format(x, n, base, cell_bytes, cell + c, two, n); \
            qn__ref_attn_pack_v(y + c * n, log_scale + c, weight + c, x, two, n); \
        } \
    }
/* clang-format off */
PACK_CELLS(f16)
PACK_CELLS(bf16)
PACK_CELLS(q8_0)
/* clang-format on */

/* Lane l of attn_weigh: u, weight and the range are the lane's own; p and scale are strided. */
static void weigh(int16_t *p, int64_t p_step, int64_t pair_step, float *scale, int64_t scale_step, float *max,
                  float *sum, const float *u, int64_t u_step, const float *weight, int64_t n, int32_t begin,
                  int32_t end)
{
    float m[QN_ATTN_BLOCKS], lane[16] = {0};
    const int64_t blocks = (n + 15) / 16;
    *max = -INFINITY;
    for (int64_t b = 0; b < blocks; b++) {
        m[b] = -INFINITY;
        for (int64_t c = 16 * b; c < 16 * b + 16 && c < end; c++)
            if (c >= begin) m[b] = higher(u[c * u_step], m[b]);
        m[b] += 0.0f; /* no -0 */
        *max = higher(m[b], *max);
    }
    for (int64_t b = 0; b < blocks; b++) {
        float e[16] = {0};
        const float w = exp_of(m[b] - *max);
        for (int64_t c = 16 * b; c < 16 * b + 16; c++) {
            if (c < begin || c >= end) continue;
            e[c % 16] = exp_of(u[c * u_step] - m[b]);
            lane[c % 16] = fmaf(e[c % 16], weight[c] * w, lane[c % 16]);
        }
        const float step = higher(qn__ref_sum16(e) * (1 / QN_ATTN_P_SUM), 1 / QN_ATTN_P_MAX), up = 1 / step;
        scale[b * scale_step] = w * step;
        for (int64_t c = 16 * b; c < 16 * b + 16 && c < (n + 1) / 2 * 2; c++) /* rounds to an integer in the low bits */
            p[c / 2 * pair_step + c % 2 * p_step] = (int16_t)bits_of(fmaf(e[c % 16], up, 0x1.8p23f));
    }
    *sum = qn__ref_sum16(lane);
}

void qn__ref_attn_weigh(int16_t *p, float *scale, float *max, float *sum, const float *u, const float *weight,
                        int64_t n_lanes, int64_t n, int64_t full_begin, int64_t full_end, const int32_t *begin,
                        const int32_t *end)
{
    (void)full_begin;
    (void)full_end;
    for (int64_t l = 0; l < n_lanes; l++)
        weigh(p + 2 * l, 1, 2 * n_lanes, scale + l, n_lanes, max + l, sum + l, u + l, n_lanes, weight, n, begin[l],
              end[l]);
}

void qn__ref_attn_weigh_row(int16_t *p, float *scale, float *max, float *sum, const float *u, const float *weight,
                            int64_t n, int32_t begin, int32_t end)
{
    memset(p, 0, (size_t)((n + 15) / 16 * 16) * 2);
    memset(scale, 0, QN_ATTN_BLOCKS * sizeof(float));
    weigh(p, 1, 2, scale, 1, max, sum, u, 1, weight, n, begin, end);
}
