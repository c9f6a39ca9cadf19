/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/attn.c -- this level's kernels of attention: kernel/attention.h over its lanes. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"
#include "backend/numbers/exp.h"

#include <string.h>

typedef lanes some; /* all bits set in the lanes of the set */

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
static inline __attribute__((always_inline)) void transpose_square(float *y, int64_t y_stride, const float *x,
                                                                   int64_t x_stride)
{
    __m256 a[8], b[8];
    UNROLL
    for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(x + i * x_stride);
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) { /* a[i + j]: column 4h + j of rows i to i + 3, in half h */
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    UNROLL
    for (int j = 0; j < 4; j++) {
        _mm256_storeu_ps(y + j * y_stride, _mm256_permute2f128_ps(a[j], a[4 + j], 0x20));
        _mm256_storeu_ps(y + (4 + j) * y_stride, _mm256_permute2f128_ps(a[j], a[4 + j], 0x31));
    }
}

/* ---- what kernel/attention_int.h needs ---- */
static inline void i_store(void *p, ints x)
{
    _mm256_storeu_si256(p, x.a);
    _mm256_storeu_si256((__m256i *)p + 1, x.b);
}
static inline ints i_pair(const int16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, 4);
    return i_set(pair);
}
/* In assembly: gcc 12 would multiply several steps first, keep products in memory, and load operands that are
 * cheaper as memory operands. */
static inline __m256i dot_pairs(__m256i s, __m256i a, const __m256i_u *b)
{
    __m256i product;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(s), "=&x"(product) : "x"(a), "m"(*b));
    return s;
}
#define INT_FROM_MEMORY
static inline ints i_dot_at(ints s, ints a, const void *p)
{
    const __m256i_u *b = p;
    return (ints){dot_pairs(s.a, a.a, b), dot_pairs(s.b, a.b, b + 1)};
}
static inline lanes l_of_int(ints x) { return (lanes){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
static inline ints i_bits(lanes x) { return (ints){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
static inline ints i_and(ints x, int mask)
{
    return (ints){_mm256_and_si256(x.a, _mm256_set1_epi32(mask)), _mm256_and_si256(x.b, _mm256_set1_epi32(mask))};
}
static inline ints i_magnitude(lanes x) { return i_and(i_bits(x), 0x7fffffff); }
static inline ints i_max(ints x, ints y) { return (ints){_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
static inline int32_t i_highest(ints x)
{
    const __m256i e = _mm256_max_epi32(x.a, x.b);
    const __m128i s = _mm_max_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    const __m128i t = _mm_max_epi32(s, _mm_unpackhi_epi64(s, s));
    return _mm_cvtsi128_si32(_mm_max_epi32(t, _mm_shuffle_epi32(t, 0x55)));
}
static inline ints i_zero(void) { return i_set(0); }
static inline void i_to_i16(int16_t *p, ints x)
{
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8));
}
static inline void i_to_i16_2(int16_t *p, ints x, ints y)
{
    i_to_i16(p, x);
    i_to_i16(p + 16, y);
}
static inline void i_low(int16_t *p, ints x)
{
    const ints low = i_and(x, 0xffff);
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(_mm256_packus_epi32(low.a, low.b), 0xd8));
}
static inline ints i_pairs(ints x, ints y)
{
    return (ints){_mm256_blend_epi16(x.a, _mm256_slli_epi32(y.a, 16), 0xaa),
                  _mm256_blend_epi16(x.b, _mm256_slli_epi32(y.b, 16), 0xaa)};
}
static inline some some_between(int lo, int hi)
{
    const ints from = first(lo), to = first(hi);
    return (some){_mm256_castsi256_ps(_mm256_andnot_si256(from.a, to.a)),
                  _mm256_castsi256_ps(_mm256_andnot_si256(from.b, to.b))};
}

#define INT_SIXTEEN
/* Reduces eight registers at once: each step combines two registers into one, in the order of the tree of
 * kernel/lanes.h. */
#define SIXTEEN(name, type, from, to, op) \
    static inline __m256 name##_half(const type *x) \
    { \
        __m256 a[8]; \
        UNROLL \
        for (int i = 0; i < 8; i++) a[i] = from(op(x[i].a, x[i].b)); /* lanes j and j + 8 */ \
        UNROLL \
        for (int i = 0; i < 4; i++) { /* and 4 */ \
            const __m256 p = a[2 * i], q = a[2 * i + 1]; \
            a[i] = from(op(to(_mm256_permute2f128_ps(p, q, 0x20)), to(_mm256_permute2f128_ps(p, q, 0x31)))); \
        } \
        UNROLL \
        for (int i = 0; i < 2; i++) { /* and 2 */ \
            const __m256 p = a[2 * i], q = a[2 * i + 1]; \
            a[i] = from(op(to(_mm256_shuffle_ps(p, q, 0x44)), to(_mm256_shuffle_ps(p, q, 0xee)))); \
        } \
        a[0] = from(op(to(_mm256_shuffle_ps(a[0], a[1], 0x88)), to(_mm256_shuffle_ps(a[0], a[1], 0xdd)))); \
        return _mm256_permutevar8x32_ps(a[0], _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)); /* odd: upper half */ \
    } \
    static inline type name(const type *x) { return (type){to(name##_half(x)), to(name##_half(x + 8))}; }
#define SAME(x) (x)
/* clang-format off */
SIXTEEN(l_sums, lanes, SAME, SAME, _mm256_add_ps)
SIXTEEN(l_highests, lanes, SAME, SAME, _mm256_max_ps)
SIXTEEN(i_highests, ints, _mm256_castsi256_ps, _mm256_castps_si256, _mm256_max_epi32)
/* clang-format on */
#undef SAME
#undef SIXTEEN

#define INT_KEEP
#define INT_HALVES
static inline uint16_t h_highest(const uint16_t *p, int64_t n)
{
    /* the lowest of the complement, since there is an instruction for the lowest of eight */
    const __m256i magnitude = _mm256_set1_epi16(0x7fff);
    __m256i lowest = magnitude;
    for (int64_t i = 0; i < n; i += 16)
        lowest = _mm256_min_epu16(lowest, _mm256_andnot_si256(_mm256_loadu_si256((const void *)(p + i)), magnitude));
    const __m128i eight = _mm_min_epu16(_mm256_castsi256_si128(lowest), _mm256_extracti128_si256(lowest, 1));
    return (uint16_t)(0x7fff - _mm_extract_epi16(_mm_minpos_epu16(eight), 0));
}

#define INT_Q8
typedef __m256i q8_bytes;
static inline q8_bytes q8_none(void) { return _mm256_setzero_si256(); }
static inline bool q8_has_127(const int8_t *p, q8_bytes *met)
{
    const __m256i magnitude = _mm256_abs_epi8(_mm256_loadu_si256((const void *)p));
    *met = _mm256_or_si256(*met, magnitude);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(magnitude, _mm256_set1_epi8(127))) != 0;
}
static inline bool q8_met_128(q8_bytes met) { return _mm256_movemask_epi8(met) != 0; }

#define INT_ROWS
/* Scores of eight cells for one row. K is used as it lies; eight registers are reduced in a tree. */
static inline __attribute__((always_inline)) void score_8(float *s, const int16_t *q, float q_scale, const int16_t *k,
                                                          const float *k_scale, const int64_t n)
{
    __m256i a[8], x = _mm256_loadu_si256((const void *)q);
    UNROLL
    for (int c = 0; c < 8; c++) a[c] = _mm256_madd_epi16(x, _mm256_loadu_si256((const void *)(k + c * n)));
    for (int64_t i = 16; i < n; i += 16) {
        x = _mm256_loadu_si256((const void *)(q + i));
        UNROLL
        for (int c = 0; c < 8; c++) a[c] = dot_pairs(a[c], x, (const __m256i_u *)(const void *)(k + c * n + i));
    }
    UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(a[2 * i], a[2 * i + 1]),
                                _mm256_unpackhi_epi32(a[2 * i], a[2 * i + 1]));
    UNROLL
    for (int i = 0; i < 2; i++)
        a[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(a[2 * i], a[2 * i + 1]),
                                _mm256_unpackhi_epi64(a[2 * i], a[2 * i + 1]));
    const __m256i sum =
        _mm256_add_epi32(_mm256_permute2x128_si256(a[0], a[1], 0x20), _mm256_permute2x128_si256(a[0], a[1], 0x31));
    const __m256 scale = _mm256_mul_ps(_mm256_set1_ps(q_scale), _mm256_loadu_ps(k_scale));
    _mm256_storeu_ps(s, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, _mm256_loadu_ps(s)));
}

static inline __attribute__((always_inline)) void score_rows(float *s, int64_t s_stride, const int16_t *q,
                                                             int64_t q_stride, const float *q_scale, int64_t n_rows,
                                                             const int16_t *k, const float *k_scale, int64_t n_cells,
                                                             const int64_t n)
{
    for (int64_t c = 0; c < n_cells; c += 8, k += 8 * n)
        for (int64_t r = 0; r < n_rows; r++) {
            __asm__("" : "+r"(k)); /* otherwise compilers keep an address for each product, in memory */
            score_8(s + r * s_stride + c, q + r * q_stride, q_scale[r], k, k_scale + c, n);
        }
}

void qn__avx2_attn_score_skinny(float *s, int64_t s_stride, const int16_t *q, int64_t q_stride, const float *q_scale,
                                int64_t n_rows, int16_t *k, const float *k_scale, int16_t *kt, int64_t n_cells,
                                int64_t n)
{
    (void)kt;
    if (n == 64)
        score_rows(s, s_stride, q, q_stride, q_scale, n_rows, k, k_scale, n_cells, 64);
    else if (n == 128)
        score_rows(s, s_stride, q, q_stride, q_scale, n_rows, k, k_scale, n_cells, 128);
    else
        score_rows(s, s_stride, q, q_stride, q_scale, n_rows, k, k_scale, n_cells, n);
}

#define INT_VECTORS       2
#define INT_SHAPES(SHAPE) SHAPE(2, 3) SHAPE(2, 2) SHAPE(2, 1) SHAPE(1, 6) SHAPE(1, 4) SHAPE(1, 2) SHAPE(1, 1)

#define FN(name)          qn__avx2_##name
#include "cpu/kernel/attention.h"
