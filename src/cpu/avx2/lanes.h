/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/lanes.h -- sixteen floats as two registers: what the templates of kernel/ need of a level. */
#ifndef QN_CPU_AVX2_LANES_H
#define QN_CPU_AVX2_LANES_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

/* Before a loop with a small constant count: otherwise compilers keep accumulators in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef struct lanes {
    __m256 a, b;
} lanes; /* lanes 0 to 7, 8 to 15 */
typedef struct ints {
    __m256i a, b;
} ints;

static inline ints first(int n)
{
    static const int32_t mask[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const __m256i *p = (const __m256i *)(const void *)(mask + 16 - n);
    return (ints){_mm256_loadu_si256(p), _mm256_loadu_si256(p + 1)};
}

static inline lanes l_set(float x) { return (lanes){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline lanes l_load(const float *p) { return (lanes){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline lanes l_load_n(const float *p, int n, lanes fill)
{
    const ints m = first(n);
    const __m256 ma = _mm256_castsi256_ps(m.a), mb = _mm256_castsi256_ps(m.b);
    return (lanes){_mm256_blendv_ps(fill.a, _mm256_maskload_ps(p, m.a), ma),
                   _mm256_blendv_ps(fill.b, _mm256_maskload_ps(p + 8, m.b), mb)};
}
static inline void l_store(float *p, lanes x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
static inline void l_store_n(float *p, int n, lanes x)
{
    const ints m = first(n);
    _mm256_maskstore_ps(p, m.a, x.a);
    _mm256_maskstore_ps(p + 8, m.b, x.b);
}
static inline lanes l_first_n(int n, lanes x) /* the other lanes are 0 */
{
    const ints m = first(n);
    return (lanes){_mm256_and_ps(x.a, _mm256_castsi256_ps(m.a)), _mm256_and_ps(x.b, _mm256_castsi256_ps(m.b))};
}

static inline lanes l_add(lanes x, lanes y) { return (lanes){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
static inline lanes l_sub(lanes x, lanes y) { return (lanes){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
static inline lanes l_mul(lanes x, lanes y) { return (lanes){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
static inline lanes l_div(lanes x, lanes y) { return (lanes){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
static inline lanes l_fma(lanes x, lanes y, lanes z)
{
    return (lanes){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline lanes l_fms(lanes x, lanes y, lanes z)
{
    return (lanes){_mm256_fmsub_ps(x.a, y.a, z.a), _mm256_fmsub_ps(x.b, y.b, z.b)};
}
static inline lanes l_fma_alternating(lanes x, lanes y, lanes z) /* even lanes x*y - z */
{
    return (lanes){_mm256_fmaddsub_ps(x.a, y.a, z.a), _mm256_fmaddsub_ps(x.b, y.b, z.b)};
}
/* y where either is NaN */
static inline lanes l_max(lanes x, lanes y) { return (lanes){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
static inline lanes l_min(lanes x, lanes y) { return (lanes){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
static inline lanes l_if_less(lanes x, lanes y, lanes yes, lanes no)
{
    return (lanes){_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
                   _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
static inline lanes l_keep_nan(lanes x, lanes no)
{
    return (lanes){_mm256_blendv_ps(no.a, x.a, _mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q)),
                   _mm256_blendv_ps(no.b, x.b, _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q))};
}
static inline bool all_finite(__m256 x)
{
    const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    return _mm256_movemask_ps(_mm256_cmp_ps(magnitude, _mm256_set1_ps(__builtin_inff()), _CMP_LT_OQ)) == 0xff;
}
static inline bool l_all_finite(lanes x) { return all_finite(x.a) && all_finite(x.b); }
static inline __m256 scale_by(__m256 p, __m256 t)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
/* p * 2^n for the n in the low bits of t */
static inline lanes l_scale_by(lanes p, lanes t) { return (lanes){scale_by(p.a, t.a), scale_by(p.b, t.b)}; }

static inline lanes l_swap_pairs(lanes x)
{
    return (lanes){_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
}
static inline lanes l_evens_twice(lanes x) { return (lanes){_mm256_moveldup_ps(x.a), _mm256_moveldup_ps(x.b)}; }
static inline lanes l_odds_twice(lanes x) { return (lanes){_mm256_movehdup_ps(x.a), _mm256_movehdup_ps(x.b)}; }
static inline __m256 in_order(__m256 x) /* after shuffle_ps, quarters are in the order 0 2 1 3 */
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
}
/* splits 32 floats in x, y into those at even and at odd indices */
static inline void l_part(lanes x, lanes y, lanes *even, lanes *odd)
{
    *even = (lanes){in_order(_mm256_shuffle_ps(x.a, x.b, 0x88)), in_order(_mm256_shuffle_ps(y.a, y.b, 0x88))};
    *odd = (lanes){in_order(_mm256_shuffle_ps(x.a, x.b, 0xdd)), in_order(_mm256_shuffle_ps(y.a, y.b, 0xdd))};
}

static inline float l_sum(lanes x) /* the tree of kernel/lanes.h */
{
    const __m256 e = _mm256_add_ps(x.a, x.b);
    const __m128 s = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 t = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
static inline float l_highest(lanes x) /* no NaN inside */
{
    const __m256 e = _mm256_max_ps(x.a, x.b);
    const __m128 s = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 t = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}
static inline float l_lowest(lanes x)
{
    const __m256 e = _mm256_min_ps(x.a, x.b);
    const __m128 s = _mm_min_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 t = _mm_min_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_min_ss(t, _mm_movehdup_ps(t)));
}

static inline __m128i load128(const void *p) { return _mm_loadu_si128(p); }
static inline lanes l_from_f16(const uint16_t *p)
{
    return (lanes){_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(p + 8))};
}
static inline void l_to_f16(uint16_t *p, lanes x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(void *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
static inline __m256 from_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p)), 16));
}
static inline lanes l_from_bf16(const uint16_t *p) { return (lanes){from_bf16(p), from_bf16(p + 8)}; }
static inline __m256i to_bf16(__m256 x) /* in the low half of each lane */
{
    const __m256i u = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
static inline void l_to_bf16(uint16_t *p, lanes x)
{
    const __m256i packed = _mm256_packus_epi32(to_bf16(x.a), to_bf16(x.b));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(packed, 0xd8));
}
static inline float l_one_f16(uint16_t h) { return _cvtsh_ss(h); }
static inline __m256 from_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}
static inline lanes l_from_i8(const int8_t *p) { return (lanes){from_i8(p), from_i8(p + 8)}; }

static inline ints i_set(int x) { return (ints){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline ints i_round(lanes x) { return (ints){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
static inline ints i_add(ints x, ints y) { return (ints){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
static inline __m256i within(__m256i x, int lo, int hi)
{
    return _mm256_max_epi32(_mm256_min_epi32(x, _mm256_set1_epi32(hi)), _mm256_set1_epi32(lo));
}
static inline ints i_within(ints x, int lo, int hi) { return (ints){within(x.a, lo, hi), within(x.b, lo, hi)}; }
static inline int i_sum(ints x)
{
    const __m256i e = _mm256_add_epi32(x.a, x.b);
    const __m128i s = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    const __m128i t = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
    return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0x55)));
}
static inline void i_to_i8(int8_t *p, ints x) /* within int8 already */
{
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)(void *)p, bytes);
}

#endif
