/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/lanes.h -- sixteen floats as one register: what the templates of kernel/ need of a level. */
#ifndef QN_CPU_AVX512_LANES_H
#define QN_CPU_AVX512_LANES_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

/* Before a loop with a small constant count: otherwise compilers keep accumulators in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef __m512 lanes;
typedef __m512i ints;

static inline __mmask16 first(int n) { return (__mmask16)_bzhi_u32(0xffff, (unsigned)n); }

static inline lanes l_set(float x) { return _mm512_set1_ps(x); }
static inline lanes l_load(const float *p) { return _mm512_loadu_ps(p); }
static inline lanes l_load_n(const float *p, int n, lanes fill) { return _mm512_mask_loadu_ps(fill, first(n), p); }
static inline void l_store(float *p, lanes x) { _mm512_storeu_ps(p, x); }
static inline void l_store_n(float *p, int n, lanes x) { _mm512_mask_storeu_ps(p, first(n), x); }
static inline lanes l_first_n(int n, lanes x) { return _mm512_maskz_mov_ps(first(n), x); } /* the other lanes are 0 */

static inline lanes l_add(lanes a, lanes b) { return _mm512_add_ps(a, b); }
static inline lanes l_sub(lanes a, lanes b) { return _mm512_sub_ps(a, b); }
static inline lanes l_mul(lanes a, lanes b) { return _mm512_mul_ps(a, b); }
static inline lanes l_div(lanes a, lanes b) { return _mm512_div_ps(a, b); }
static inline lanes l_fma(lanes a, lanes b, lanes c) { return _mm512_fmadd_ps(a, b, c); }
static inline lanes l_fms(lanes a, lanes b, lanes c) { return _mm512_fmsub_ps(a, b, c); }
/* even lanes a*b - c */
static inline lanes l_fma_alternating(lanes a, lanes b, lanes c) { return _mm512_fmaddsub_ps(a, b, c); }
static inline lanes l_max(lanes a, lanes b) { return _mm512_max_ps(a, b); } /* b where either is NaN */
static inline lanes l_min(lanes a, lanes b) { return _mm512_min_ps(a, b); }
static inline lanes l_if_less(lanes a, lanes b, lanes yes, lanes no)
{
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), yes);
}
static inline lanes l_keep_nan(lanes x, lanes no)
{
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}
static inline bool l_all_finite(lanes x)
{
    return _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(__builtin_inff()), _CMP_LT_OQ) == 0xffff;
}
/* p * 2^n for the n in the low bits of t */
static inline lanes l_scale_by(lanes p, lanes t)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}

static inline lanes l_swap_pairs(lanes x) { return _mm512_permute_ps(x, 0xb1); }
static inline lanes l_evens_twice(lanes x) { return _mm512_moveldup_ps(x); }
static inline lanes l_odds_twice(lanes x) { return _mm512_movehdup_ps(x); }
/* splits 32 floats in a, b into those at even and at odd indices */
static inline void l_part(lanes a, lanes b, lanes *even, lanes *odd)
{
    const __m512i at = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    *even = _mm512_permutex2var_ps(a, at, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(1)), b);
}

static inline float sum8(__m256 x)
{
    const __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 t = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
static inline float l_sum(lanes x) /* the tree of kernel/lanes.h */
{
    return sum8(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}
static inline float l_highest(lanes x) { return _mm512_reduce_max_ps(x); } /* no NaN inside */
static inline float l_lowest(lanes x) { return _mm512_reduce_min_ps(x); }

static inline __m256i load256(const uint16_t *p) { return _mm256_loadu_si256((const void *)p); }
static inline lanes l_from_f16(const uint16_t *p) { return _mm512_cvtph_ps(load256(p)); }
static inline void l_to_f16(uint16_t *p, lanes x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline lanes l_from_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load256(p)), 16));
}
static inline void l_to_bf16(uint16_t *p, lanes x)
{
    const __m512i u = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
    const __m512i bits = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}
static inline float l_one_f16(uint16_t h) { return _cvtsh_ss(h); }
static inline lanes l_from_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

static inline ints i_set(int x) { return _mm512_set1_epi32(x); }
static inline ints i_round(lanes x) { return _mm512_cvtps_epi32(x); }
static inline ints i_add(ints a, ints b) { return _mm512_add_epi32(a, b); }
static inline ints i_within(ints x, int lo, int hi)
{
    return _mm512_max_epi32(_mm512_min_epi32(x, i_set(hi)), i_set(lo));
}
static inline int i_sum(ints x) { return _mm512_reduce_add_epi32(x); }
static inline void i_to_i8(int8_t *p, ints x) { _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(x)); }

#endif
