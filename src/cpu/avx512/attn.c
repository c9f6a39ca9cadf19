/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/attn.c -- attention's kernels of this level: ukr_attn.h over its lanes. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"
#include "cpu/ukr_exp.h"

#include <string.h>

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
    UNROLL for (int q = 0; q < 4; q++, x += 4, y += 4 * y_stride) {
        __m512 a[4]; /* loads put rows e, 4 + e, 8 + e, 12 + e into the quarters of one register: half the shuffles */
        UNROLL for (int e = 0; e < 4; e++) {
            a[e] = _mm512_castps128_ps512(_mm_loadu_ps(x + e * x_stride));
            a[e] = _mm512_mask_broadcast_f32x4(a[e], 0x00f0, _mm_loadu_ps(x + (4 + e) * x_stride));
            a[e] = _mm512_mask_broadcast_f32x4(a[e], 0x0f00, _mm_loadu_ps(x + (8 + e) * x_stride));
            a[e] = _mm512_mask_broadcast_f32x4(a[e], 0xf000, _mm_loadu_ps(x + (12 + e) * x_stride));
        }
        const __m512d lo0 = _mm512_castps_pd(_mm512_unpacklo_ps(a[0], a[1])), hi0 = _mm512_castps_pd(_mm512_unpackhi_ps(a[0], a[1]));
        const __m512d lo1 = _mm512_castps_pd(_mm512_unpacklo_ps(a[2], a[3])), hi1 = _mm512_castps_pd(_mm512_unpackhi_ps(a[2], a[3]));
        _mm512_storeu_ps(y, _mm512_castpd_ps(_mm512_unpacklo_pd(lo0, lo1)));
        _mm512_storeu_ps(y + y_stride, _mm512_castpd_ps(_mm512_unpackhi_pd(lo0, lo1)));
        _mm512_storeu_ps(y + 2 * y_stride, _mm512_castpd_ps(_mm512_unpacklo_pd(hi0, hi1)));
        _mm512_storeu_ps(y + 3 * y_stride, _mm512_castpd_ps(_mm512_unpackhi_pd(hi0, hi1)));
    }
}

/* What ukr_attn_int.h asks for. */
static inline ints i_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void i_store(void *p, ints x) { _mm512_storeu_si512(p, x); }
static inline ints i_pair(const int16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, 4);
    return _mm512_set1_epi32(pair);
}
static inline ints i_dot(ints s, ints a, ints b) /* by hand: gcc 12 moves what its builtin adds to from register to register */
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
static inline some some_between(int lo, int hi) { return (some)(first(hi) & ~first(lo)); }

#define INT_SIXTEEN
/* A tree for sixteen at once: each step adds up what two registers hold, and puts both into one. The order of ukr.h. */
#define SIXTEEN(name, type, from, to, op)                                                                      \
    static inline type name(const type *x)                                                                             \
    {                                                                                                                  \
        type a[8];                                                                                                     \
        UNROLL for (int i = 0; i < 8; i++) { /* lanes j and j + 8 */                                                   \
            const __m512 p = to(x[2 * i]), q = to(x[2 * i + 1]);                                                       \
            a[i] = op(from(_mm512_shuffle_f32x4(p, q, 0x44)), from(_mm512_shuffle_f32x4(p, q, 0xee)));                 \
        }                                                                                                              \
        UNROLL for (int i = 0; i < 4; i++) { /* and 4 */                                                               \
            const __m512 p = to(a[2 * i]), q = to(a[2 * i + 1]);                                                       \
            a[i] = op(from(_mm512_shuffle_f32x4(p, q, 0x88)), from(_mm512_shuffle_f32x4(p, q, 0xdd)));                 \
        }                                                                                                              \
        UNROLL for (int i = 0; i < 2; i++) { /* and 2 */                                                               \
            const __m512 p = to(a[2 * i]), q = to(a[2 * i + 1]);                                                       \
            a[i] = op(from(_mm512_shuffle_ps(p, q, 0x44)), from(_mm512_shuffle_ps(p, q, 0xee)));                       \
        }                                                                                                              \
        const __m512 p = to(a[0]), q = to(a[1]);                                                                       \
        const __m512 s = to(op(from(_mm512_shuffle_ps(p, q, 0x88)), from(_mm512_shuffle_ps(p, q, 0xdd))));             \
        /* quarter i holds 0, 4, 8, 12 of i: p came from 0 to 7 */                                                     \
        return from(_mm512_permutexvar_ps(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0), s)); \
    }
#define SAME(x) (x)
SIXTEEN(l_sums, lanes, SAME, SAME, _mm512_add_ps)
SIXTEEN(l_highests, lanes, SAME, SAME, _mm512_max_ps)
SIXTEEN(i_highests, ints, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_max_epi32)
#undef SAME
#undef SIXTEEN

#define INT_VECTORS 4
#define INT_SHAPES(SHAPE)                                                                                              \
    SHAPE(4, 6) SHAPE(4, 4) SHAPE(4, 2) SHAPE(4, 1) SHAPE(3, 8) SHAPE(3, 4) SHAPE(3, 2) SHAPE(3, 1)                    \
    SHAPE(2, 12) SHAPE(2, 8) SHAPE(2, 4) SHAPE(2, 2) SHAPE(2, 1) SHAPE(1, 24) SHAPE(1, 12) SHAPE(1, 4) SHAPE(1, 1)

#define FN(name) qn__avx512_##name
#include "cpu/ukr_attn.h"
