/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/lanes_math.h -- what kernel/math.h needs of a level beyond lanes.h. */
#ifndef QN_CPU_AVX512_LANES_MATH_H
#define QN_CPU_AVX512_LANES_MATH_H

#include "cpu/avx512/lanes.h"
#include "cpu/kernel/math_const.h"

static inline lanes l_sqrt(lanes x) { return _mm512_sqrt_ps(x); }
static inline lanes l_abs(lanes x) { return _mm512_abs_ps(x); }
static inline lanes l_with_sign(lanes magnitude, lanes s) /* magnitude >= 0 */
{
    return _mm512_or_ps(magnitude, _mm512_and_ps(s, _mm512_set1_ps(-0.0f)));
}
static inline lanes l_floor(lanes x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline lanes l_ceil(lanes x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline lanes l_rint(lanes x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline lanes l_trunc(lanes x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
/* by the lowest bits of t: `yes` where bit 0 is set; negated where bit 1 is */
static inline lanes l_if_odd(lanes t, lanes yes, lanes no)
{
    return _mm512_mask_mov_ps(no, _mm512_test_epi32_mask(_mm512_castps_si512(t), _mm512_set1_epi32(1)), yes);
}
static inline lanes l_negate_by(lanes x, lanes t)
{
    const __m512i sign = _mm512_slli_epi32(_mm512_and_si512(_mm512_castps_si512(t), _mm512_set1_epi32(2)), 30);
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), sign));
}
/* x = m 2^e with m in [sqrt(1/2), sqrt(2)); x normal and positive */
static inline lanes l_split(lanes x, lanes *e)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i n = _mm512_srai_epi32(_mm512_sub_epi32(bits, _mm512_set1_epi32(QN_LOG_BITS)), 23);
    *e = _mm512_cvtepi32_ps(n);
    return _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(n, 23)));
}

#endif
