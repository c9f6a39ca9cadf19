/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/attn.c -- this level's kernels of attention: kernel/attention.h over its lanes. */
#include "cpu/avx512/attn_ints.h"
#include "cpu/avx512/avx512.h"
#include "backend/numbers/exp.h"

#include <string.h>

typedef __mmask16 some;

static inline some some_in(int64_t c, const int32_t *begin, const int32_t *end)
{
    const __m512i at = _mm512_set1_epi32((int32_t)c);
    return _mm512_mask_cmpgt_epi32_mask(_mm512_cmple_epi32_mask(_mm512_loadu_si512(begin), at), _mm512_loadu_si512(end),
                                        at);
}
static inline some some_nonzero(lanes x) { return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ); }
static inline some some_between(int lo, int hi) { return (some)(first(hi) & ~first(lo)); }
static inline lanes pick(some s, lanes yes, lanes no) { return _mm512_mask_mov_ps(no, s, yes); }
static inline lanes power(lanes x, lanes p, lanes n, lanes t)
{
    (void)t; /* masked, since subnormal results cost a hundred cycles */
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(QN_EXP_MIN), _CMP_NLT_UQ), p, n);
}

enum { SIDE = 16 };
static inline __attribute__((always_inline)) void transpose_square(float *y, int64_t y_stride, const float *x,
                                                                   int64_t x_stride)
{
    UNROLL
    for (int q = 0; q < 4; q++, x += 4, y += 4 * y_stride) {
        __m512 a[4]; /* rows e, 4 + e, 8 + e, 12 + e in the quarters of a register: half the shuffles */
        UNROLL
        for (int e = 0; e < 4; e++) {
            a[e] = _mm512_castps128_ps512(_mm_loadu_ps(x + e * x_stride));
            a[e] = _mm512_mask_broadcast_f32x4(a[e], 0x00f0, _mm_loadu_ps(x + (4 + e) * x_stride));
            a[e] = _mm512_mask_broadcast_f32x4(a[e], 0x0f00, _mm_loadu_ps(x + (8 + e) * x_stride));
            a[e] = _mm512_mask_broadcast_f32x4(a[e], 0xf000, _mm_loadu_ps(x + (12 + e) * x_stride));
        }
        const __m512d lo0 = _mm512_castps_pd(_mm512_unpacklo_ps(a[0], a[1])),
                      hi0 = _mm512_castps_pd(_mm512_unpackhi_ps(a[0], a[1]));
        const __m512d lo1 = _mm512_castps_pd(_mm512_unpacklo_ps(a[2], a[3])),
                      hi1 = _mm512_castps_pd(_mm512_unpackhi_ps(a[2], a[3]));
        _mm512_storeu_ps(y, _mm512_castpd_ps(_mm512_unpacklo_pd(lo0, lo1)));
        _mm512_storeu_ps(y + y_stride, _mm512_castpd_ps(_mm512_unpackhi_pd(lo0, lo1)));
        _mm512_storeu_ps(y + 2 * y_stride, _mm512_castpd_ps(_mm512_unpacklo_pd(hi0, hi1)));
        _mm512_storeu_ps(y + 3 * y_stride, _mm512_castpd_ps(_mm512_unpackhi_pd(hi0, hi1)));
    }
}

#define INT_ROWS
/* Scores of sixteen cells for one row. K is used as it lies; sixteen registers are reduced in a tree. */
static inline __attribute__((always_inline)) void score_16(float *s, const int16_t *q, float q_scale, const int16_t *k,
                                                           const float *k_scale, const int64_t n)
{
    ints a[16];
    UNROLL
    for (int c = 0; c < 16; c++) a[c] = i_zero();
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const ints x = i_load(q + i);
        UNROLL
        for (int c = 0; c < 16; c++) {
            const __m512i_u *y = (const void *)(k + c * n + i);
            __asm__("vpdpwssd %2, %1, %0" : "+v"(a[c]) : "v"(x), "m"(*y));
        }
    }
    if (i < n) {
        const ints x = _mm512_maskz_loadu_epi32(0xff, q + i);
        UNROLL
        for (int c = 0; c < 16; c++) a[c] = i_dot(a[c], x, _mm512_maskz_loadu_epi32(0xff, k + c * n + i));
    }
    const lanes scale = l_mul(l_set(q_scale), l_load(k_scale));
    l_store(s, l_fma(l_of_int(i_sums(a)), scale, l_load(s)));
}

static inline __attribute__((always_inline)) void score_rows(float *s, int64_t s_stride, const int16_t *q,
                                                             int64_t q_stride, const float *q_scale, int64_t n_rows,
                                                             const int16_t *k, const float *k_scale, int64_t n_cells,
                                                             const int64_t n)
{
    for (int64_t c = 0; c < n_cells; c += 16, k += 16 * n)
        for (int64_t r = 0; r < n_rows; r++)
            score_16(s + r * s_stride + c, q + r * q_stride, q_scale[r], k, k_scale + c, n);
}

void qn__avx512_attn_score_skinny(float *s, int64_t s_stride, const int16_t *q, int64_t q_stride, const float *q_scale,
                                  int64_t n_rows, int16_t *k, const float *k_scale, int16_t *kt, int64_t n_cells,
                                  int64_t n)
{
    (void)kt;
    if (n == 64)
        score_rows(s, s_stride, q, q_stride, q_scale, n_rows, k, k_scale, n_cells, 64);
    else if (n == 128)
        score_rows(s, s_stride, q, q_stride, q_scale, n_rows, k, k_scale, n_cells, 128);
    else if (n == 256)
        score_rows(s, s_stride, q, q_stride, q_scale, n_rows, k, k_scale, n_cells, 256);
    else
        score_rows(s, s_stride, q, q_stride, q_scale, n_rows, k, k_scale, n_cells, n);
}

#define INT_VECTORS 4
/* clang-format off */
#define INT_SHAPES(SHAPE) \
    SHAPE(4, 6) SHAPE(4, 4) SHAPE(4, 2) SHAPE(4, 1) SHAPE(3, 8) SHAPE(3, 4) SHAPE(3, 2) SHAPE(3, 1) \
    SHAPE(2, 12) SHAPE(2, 8) SHAPE(2, 4) SHAPE(2, 2) SHAPE(2, 1) SHAPE(1, 24) SHAPE(1, 12) SHAPE(1, 4) SHAPE(1, 1)
/* clang-format on */

#define FN(name)    qn__avx512_##name
#include "cpu/kernel/attention.h"
