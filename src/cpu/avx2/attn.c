/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/attn.c -- attention's kernels of this level: ukr_attn.h over its lanes. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"
#include "cpu/ukr_exp.h"

typedef lanes some; /* all bits of a chosen lane are set */

static inline __m256 in_half(__m256i at, const int32_t *begin, const int32_t *end)
{
    const __m256i b = _mm256_loadu_si256((const void *)begin), e = _mm256_loadu_si256((const void *)end);
    return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_cmpgt_epi32(b, at), _mm256_cmpgt_epi32(e, at)));
}
static inline some some_in(int64_t c, const int32_t *begin, const int32_t *end)
{
    const __m256i at = _mm256_set1_epi32((int32_t)c);
    return (some){in_half(at, begin, end), in_half(at, begin + 8, end + 8)};
}
static inline some some_nonzero(lanes x)
{
    const __m256 zero = _mm256_setzero_ps();
    return (some){_mm256_cmp_ps(x.a, zero, _CMP_NEQ_UQ), _mm256_cmp_ps(x.b, zero, _CMP_NEQ_UQ)};
}
static inline lanes pick(some s, lanes yes, lanes no)
{
    return (lanes){_mm256_blendv_ps(no.a, yes.a, s.a), _mm256_blendv_ps(no.b, yes.b, s.b)};
}
static inline lanes power(lanes x, lanes p, lanes n, lanes t)
{
    (void)n;
    return l_keep_nan(x, l_if_less(x, l_set(QN_EXP_MIN), l_set(0), l_scale_by(p, t)));
}

enum { SIDE = 8 };
static inline __attribute__((always_inline)) void turn(float *y, int64_t y_stride, const float *x, int64_t x_stride)
{
    __m256 a[8], b[8];
    UNROLL for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(x + i * x_stride);
    UNROLL for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4) { /* a[i + j]: column 4h + j of rows i to i + 3 in half h */
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    UNROLL for (int j = 0; j < 4; j++) {
        _mm256_storeu_ps(y + j * y_stride, _mm256_permute2f128_ps(a[j], a[4 + j], 0x20));
        _mm256_storeu_ps(y + (4 + j) * y_stride, _mm256_permute2f128_ps(a[j], a[4 + j], 0x31));
    }
}

#define FN(name) qn__avx2_##name
#include "cpu/ukr_attn.h"
