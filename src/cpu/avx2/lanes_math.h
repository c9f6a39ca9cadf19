/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/lanes_math.h -- what ukr_math.h asks of a level beyond lanes.h. */
#ifndef QN_CPU_AVX2_LANES_MATH_H
#define QN_CPU_AVX2_LANES_MATH_H

#include "cpu/avx2/lanes.h"
#include "cpu/ukr_math_const.h"

static inline lanes l_sqrt(lanes x) { return (lanes){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
static inline lanes l_abs(lanes x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (lanes){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
static inline lanes l_with_sign(lanes magnitude, lanes s) /* magnitude >= 0 */
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (lanes){_mm256_or_ps(magnitude.a, _mm256_and_ps(s.a, sign)), _mm256_or_ps(magnitude.b, _mm256_and_ps(s.b, sign))};
}
static inline __m256 split(__m256 x, __m256 *e)
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i n = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(QN_LOG_BITS)), 23);
    *e = _mm256_cvtepi32_ps(n);
    return _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(n, 23)));
}
/* x = m 2^e with m in [sqrt(1/2), sqrt(2)); x normal and positive */
static inline lanes l_split(lanes x, lanes *e) { return (lanes){split(x.a, &e->a), split(x.b, &e->b)}; }

#endif
