/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/attn.c -- attention's kernels of this level: ukr_attn.h over its lanes. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"
#include "cpu/ukr_exp.h"

typedef __mmask16 some;

static inline some some_in(int64_t c, const int32_t *begin, const int32_t *end)
{
    const __m512i at = _mm512_set1_epi32((int32_t)c);
    return _mm512_mask_cmpgt_epi32_mask(_mm512_cmple_epi32_mask(_mm512_loadu_si512(begin), at), _mm512_loadu_si512(end), at);
}
static inline some some_nonzero(lanes x) { return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ); }
static inline lanes pick(some s, lanes yes, lanes no) { return _mm512_mask_mov_ps(no, s, yes); }
static inline lanes power(lanes x, lanes p, lanes n, lanes t)
{
    (void)t; /* masked, as results below the normal ones cost a hundred cycles */
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(QN_EXP_MIN), _CMP_NLT_UQ), p, n);
}

enum { SIDE = 16 };
static inline __attribute__((always_inline)) void turn(float *y, int64_t y_stride, const float *x, int64_t x_stride)
{
    __m512 a[16], b[16];
    UNROLL for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_ps(x + i * x_stride);
    UNROLL for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    UNROLL for (int i = 0; i < 16; i += 4) { /* a[i + j]: column 4q + j of rows i to i + 3 in quarter q */
        a[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[i]), _mm512_castps_pd(b[i + 2])));
        a[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[i]), _mm512_castps_pd(b[i + 2])));
        a[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[i + 1]), _mm512_castps_pd(b[i + 3])));
        a[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[i + 1]), _mm512_castps_pd(b[i + 3])));
    }
    UNROLL for (int j = 0; j < 4; j++) {
        const __m512 lo0 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x88), lo1 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x88);
        const __m512 hi0 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xdd), hi1 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xdd);
        _mm512_storeu_ps(y + j * y_stride, _mm512_shuffle_f32x4(lo0, lo1, 0x88));
        _mm512_storeu_ps(y + (4 + j) * y_stride, _mm512_shuffle_f32x4(hi0, hi1, 0x88));
        _mm512_storeu_ps(y + (8 + j) * y_stride, _mm512_shuffle_f32x4(lo0, lo1, 0xdd));
        _mm512_storeu_ps(y + (12 + j) * y_stride, _mm512_shuffle_f32x4(hi0, hi1, 0xdd));
    }
}

#define FN(name) qn__avx512_##name
#include "cpu/ukr_attn.h"
