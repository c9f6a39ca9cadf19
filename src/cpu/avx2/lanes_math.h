/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/lanes_math.h -- what kernel/math.h needs of a level beyond lanes.h. */
#ifndef QN_CPU_AVX2_LANES_MATH_H
#define QN_CPU_AVX2_LANES_MATH_H

#include "cpu/avx2/lanes.h"
#include "cpu/kernel/math_const.h"

static inline lanes l_sqrt(lanes x) { return (lanes){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
static inline lanes l_abs(lanes x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (lanes){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
static inline lanes l_with_sign(lanes magnitude, lanes s) /* magnitude >= 0 */
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (lanes){_mm256_or_ps(magnitude.a, _mm256_and_ps(s.a, sign)),
                   _mm256_or_ps(magnitude.b, _mm256_and_ps(s.b, sign))};
}
#define ROUNDED(name, mode) \
    static inline lanes name(lanes x) \
    { \
        return (lanes){_mm256_round_ps(x.a, mode | _MM_FROUND_NO_EXC), \
                       _mm256_round_ps(x.b, mode | _MM_FROUND_NO_EXC)}; \
    }
/* clang-format off */
ROUNDED(l_floor, _MM_FROUND_TO_NEG_INF)
ROUNDED(l_ceil, _MM_FROUND_TO_POS_INF)
ROUNDED(l_rint, _MM_FROUND_TO_NEAREST_INT)
ROUNDED(l_trunc, _MM_FROUND_TO_ZERO)
/* clang-format on */
#undef ROUNDED
static inline __m256 if_odd(__m256 t, __m256 yes, __m256 no)
{
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 31)));
}
/* by the lowest bits of t: `yes` where bit 0 is set; negated where bit 1 is */
static inline lanes l_if_odd(lanes t, lanes yes, lanes no)
{
    return (lanes){if_odd(t.a, yes.a, no.a), if_odd(t.b, yes.b, no.b)};
}
static inline __m256 negate_by(__m256 x, __m256 t)
{
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(_mm256_castps_si256(t), _mm256_set1_epi32(2)), 30);
    return _mm256_castsi256_ps(_mm256_xor_si256(_mm256_castps_si256(x), sign));
}
static inline lanes l_negate_by(lanes x, lanes t) { return (lanes){negate_by(x.a, t.a), negate_by(x.b, t.b)}; }
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
