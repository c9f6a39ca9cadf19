/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/attn_ints.h -- what kernel/attention_int.h and kernel/attention_pack.h need of this level's
 * integers. */
#ifndef QN_CPU_AVX512_ATTN_INTS_H
#define QN_CPU_AVX512_ATTN_INTS_H

#include "cpu/avx512/lanes.h"

#include <string.h>

static inline ints i_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void i_store(void *p, ints x) { _mm512_storeu_si512(p, x); }
static inline ints i_pair(const int16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, 4);
    return _mm512_set1_epi32(pair);
}
static inline ints i_dot(ints s, ints a, ints b) /* in assembly: gcc 12 copies the accumulator of its builtin */
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(s) : "v"(a), "v"(b));
    return s;
}
static inline lanes l_of_int(ints x) { return _mm512_cvtepi32_ps(x); }
static inline ints i_bits(lanes x) { return _mm512_castps_si512(x); }
static inline ints i_and(ints x, int mask) { return _mm512_and_si512(x, _mm512_set1_epi32(mask)); }
static inline ints i_magnitude(lanes x) { return i_and(_mm512_castps_si512(x), 0x7fffffff); }
static inline ints i_max(ints x, ints y) { return _mm512_max_epi32(x, y); }
static inline int32_t i_highest(ints x) { return _mm512_reduce_max_epi32(x); }
static inline ints i_zero(void) { return _mm512_setzero_si512(); }
static inline void i_to_i16(int16_t *p, ints x) { _mm256_storeu_si256((void *)p, _mm512_cvtsepi32_epi16(x)); }
static inline void i_to_i16_2(int16_t *p, ints x, ints y)
{
    const __m512i quarters = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi64(quarters, _mm512_packs_epi32(x, y)));
}
static inline void i_low(int16_t *p, ints x) { _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(x)); }
static inline ints i_pairs(ints x, ints y) { return _mm512_mask_blend_epi16(0xaaaaaaaa, x, _mm512_slli_epi32(y, 16)); }

#define INT_LOWS
static inline void i_lows_2(int16_t *p, ints x, ints y)
{
    const ints even = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26, 24,
                                       22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    _mm512_storeu_si512(p, _mm512_permutex2var_epi16(x, even, y));
}
#define INT_HIGHEST_PAIRS
static inline ints h_highest_pairs(const void *p, int64_t n)
{
    const ints magnitude = _mm512_set1_epi16(0x7fff);
    ints x = i_zero();
    for (int64_t i = 0; i < n; i += 32)
        x = _mm512_max_epu16(x, _mm512_and_si512(_mm512_loadu_si512((const uint16_t *)p + i), magnitude));
    return _mm512_max_epu32(_mm512_srli_epi32(x, 16), _mm512_and_si512(x, _mm512_set1_epi32(0xffff)));
}

#define INT_Q8
static inline ints i_squares(const int8_t *p)
{
    const __m512i x = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)p));
    return _mm512_madd_epi16(x, x);
}
typedef __m256i q8_bytes;
static inline q8_bytes q8_none(void) { return _mm256_setzero_si256(); }
static inline bool q8_has_127(const int8_t *p, q8_bytes *met)
{
    const __m256i magnitude = _mm256_abs_epi8(_mm256_loadu_si256((const void *)p));
    *met = _mm256_or_si256(*met, magnitude);
    return _mm256_cmpeq_epi8_mask(magnitude, _mm256_set1_epi8(127)) != 0;
}
static inline bool q8_met_128(q8_bytes met) { return _mm256_movemask_epi8(met) != 0; }

#define INT_SIXTEEN
/* Reduces sixteen registers at once: each step combines two registers into one, in the order of the tree of
 * kernel/lanes.h. */
#define SIXTEEN(name, type, from, to, op) \
    static inline type name(const type *x) \
    { \
        type a[8]; \
        UNROLL \
        for (int i = 0; i < 8; i++) { /* lanes j and j + 8 */ \
            const __m512 p = to(x[2 * i]), q = to(x[2 * i + 1]); \
            a[i] = op(from(_mm512_shuffle_f32x4(p, q, 0x44)), from(_mm512_shuffle_f32x4(p, q, 0xee))); \
        } \
        UNROLL \
        for (int i = 0; i < 4; i++) { /* and 4 */ \
            const __m512 p = to(a[2 * i]), q = to(a[2 * i + 1]); \
            a[i] = op(from(_mm512_shuffle_f32x4(p, q, 0x88)), from(_mm512_shuffle_f32x4(p, q, 0xdd))); \
        } \
        UNROLL \
        for (int i = 0; i < 2; i++) { /* and 2 */ \
            const __m512 p = to(a[2 * i]), q = to(a[2 * i + 1]); \
            a[i] = op(from(_mm512_shuffle_ps(p, q, 0x44)), from(_mm512_shuffle_ps(p, q, 0xee))); \
        } \
        const __m512 p = to(a[0]), q = to(a[1]); \
        const __m512 s = to(op(from(_mm512_shuffle_ps(p, q, 0x88)), from(_mm512_shuffle_ps(p, q, 0xdd)))); \
        /* quarter i holds 0, 4, 8, 12 of i: p came from 0 to 7 */ \
        return from(_mm512_permutexvar_ps(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0), s)); \
    }
#define SAME(x) (x)
/* clang-format off */
SIXTEEN(l_sums, lanes, SAME, SAME, _mm512_add_ps)
SIXTEEN(l_highests, lanes, SAME, SAME, _mm512_max_ps)
SIXTEEN(i_highests, ints, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_max_epi32)
SIXTEEN(i_sums, ints, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_add_epi32)
/* clang-format on */
#undef SAME
#undef SIXTEEN

#endif
