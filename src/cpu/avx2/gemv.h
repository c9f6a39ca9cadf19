/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/gemv.h -- what kernel/gemv.h needs of this level. AVX2 has no exact dot product of bytes: maddubs
 * adds two products of an unsigned and a signed byte in 16 bits, and saturates. With bytes up to DOT_MAX it never
 * does, and sums of small products stay in 16 bits as long as they fit. For greater bytes, |v| is multiplied with q
 * that takes v's sign, v = u - 128: at most 2 * 128 * 127. */
#ifndef QN_CPU_AVX2_GEMV_H
#define QN_CPU_AVX2_GEMV_H

#include "cpu/avx2/avx2.h"
#include "cpu/avx2/gemv_lanes.h"

#include <string.h>

#ifndef FN
#define FN(name) qn__avx2_##name
#endif

/* From so many columns on panels are faster. GB/s of weights, from memory, one thread of a Zen 3, medians of three:
 * 5, 6, 8 columns of Q4_K 2.7, 2.9, 3.2 (panel 3.1, 3.0, 2.8), 12 columns 1.3 (2.3); 6, 8, 10 columns of Q4_0 4.0, 3.6,
 * 2.2 (2.8, 2.6, 2.2), of Q8_0 3.9, 3.2, 2.5 (3.0, 2.7, 2.5), 8 of IQ4_NL, Q5_0 and MXFP4 as fast as panels. */
#define GEMV_KERNELS(KERNEL, name) KERNEL(name, 2) KERNEL(name, 4)
#define GEMV_COLS_MAX              4
#define GEMV_COLS                  4
enum {
    ROWS = 8,
    GEMV_PANEL_FROM = 5,
    GEMV_PANEL_FROM_EXACT = 5,
    GEMV_PANEL_FROM_32 = 9,
    DOT_MAX = 128,
    GEMV_PAIRS = 0
};

INLINE words pairs_to_words(words x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }
INLINE words w_dot_8(words s, words u, words q)
{
    return w_add_32(s, pairs_to_words(_mm256_maddubs_epi16(u, q)));
} /* s + four products of bytes, u at most DOT_MAX */
INLINE words w_dot_16(words s, words a, words b) { return w_add_32(s, _mm256_madd_epi16(a, b)); } /* s + two products */

/* Keeps the order of additions: compilers would multiply everything first, for which there are not enough registers. */
#define IN_ORDER(x) __asm__("" : "+x"(x))

/* Quants are transposed halfway: a register holds eight consecutive weights of four rows, 0, 1 | 4, 5 or 2, 3 | 6,
 * 7, so that its sums are two for each row. Three instructions bring two such registers to one sum per row and lane.
 * That costs as much as the other half of transposing 16 weights, but one broadcast of eight activations serves both
 * registers, and sums of weights can use psadbw. */
#define OWN_DOTS
INLINE void load_quants(const uint8_t *w, size_t step, words out[4])
{
    const words a = load_both(w, 4 * step), b = load_both(w + step, 4 * step);
    const words c = load_both(w + 2 * step, 4 * step), d = load_both(w + 3 * step, 4 * step);
    out[0] = _mm256_unpacklo_epi64(a, b);
    out[1] = _mm256_unpackhi_epi64(a, b);
    out[2] = _mm256_unpacklo_epi64(c, d);
    out[3] = _mm256_unpackhi_epi64(c, d);
}

/* Dword `odd` (0 or 1) of each row's two in a and b, one row per lane. */
INLINE words dwords_of(words a, words b, const int odd)
{
    const __m256 x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);
    return _mm256_castps_si256(odd ? _mm256_shuffle_ps(x, y, 0xdd) : _mm256_shuffle_ps(x, y, 0x88));
}

INLINE words eight_at(const int8_t *p)
{
    int64_t v;
    memcpy(&v, p, 8);
    return _mm256_set1_epi64x(v);
}

/* s[c] += sum of (u - SHIFT(max)) q over 4 n elements; column c's q are c * stride bytes after those of column 0 */
INLINE void dots_n(const int nc, words *s, const words *u, const int8_t *q, size_t stride, int n, int max)
{
    if (max > DOT_MAX) {
        words t[GEMV_COLS_MAX][2];
        UNROLL
        for (int i = 0; i < n; i++) {
            const words v = w_xor(u[i], w_bytes(-128)), size = _mm256_abs_epi8(v);
            UNROLL
            for (int c = 0; c < nc; c++) {
                words *to = &t[c][i / 2 % 2];
                const words x = _mm256_sign_epi8(eight_at(q + (size_t)c * stride + i / 4 * 16 + i % 2 * 8), v);
                const words p = pairs_to_words(_mm256_maddubs_epi16(size, x));
                *to = i < 4 && i % 2 == 0 ? p : w_add_32(*to, p);
                IN_ORDER(*to);
            }
        }
        UNROLL
        for (int c = 0; c < nc; c++)
            s[c] = w_add_32(s[c], w_add_32(dwords_of(t[c][0], t[c][1], 0), dwords_of(t[c][0], t[c][1], 1)));
        return;
    }
    const int fit = 32767 / (2 * max * 127); /* how many products can be added in 16 bits */
    UNROLL
    for (int c = 0; c < nc; c++) {
        words t[2];
        UNROLL
        for (int i = 0; i < n; i += 4) {
            UNROLL
            for (int half = 0; half < 2; half++) {
                const words x = eight_at(q + (size_t)c * stride + 4 * i + 8 * half);
                UNROLL
                for (int j = 0; j < 2; j++) {
                    const words p = _mm256_maddubs_epi16(u[i + 2 * j + half], x);
                    t[j] = i + half == 0 ? p : _mm256_add_epi16(t[j], p);
                    IN_ORDER(t[j]);
                }
            }
        }
        if (fit >= n) {
            s[c] = w_add_32(s[c], pairs_to_words(_mm256_add_epi16(dwords_of(t[0], t[1], 0), dwords_of(t[0], t[1], 1))));
        } else {
            t[0] = pairs_to_words(t[0]);
            t[1] = pairs_to_words(t[1]);
            s[c] = w_add_32(s[c], w_add_32(dwords_of(t[0], t[1], 0), dwords_of(t[0], t[1], 1)));
        }
    }
}

/* start + sum of u over 4 n elements, each at most `max` */
INLINE words sum_n(words start, const words *u, int n, int max)
{
    const bool fits = max * n / 2 <= 255;
    words sum[2];
    UNROLL
    for (int j = 0; j < 2; j++) {
        UNROLL
        for (int i = 0; i < n / 2; i++) {
            const words v = u[i / 2 * 4 + 2 * j + i % 2], here = fits ? v : _mm256_sad_epu8(v, w_zero());
            sum[j] = i == 0 ? here : fits ? w_add_8(sum[j], here) : w_add_32(sum[j], here);
        }
        if (fits) sum[j] = _mm256_sad_epu8(sum[j], w_zero());
    }
    return w_add_32(start, dwords_of(sum[0], sum[1], 0));
}

/* start + scale * that sum, which is below 2^15; scale: in each byte of a lane, signed */
INLINE words sum_scaled(words start, const words *u, int n, int max, words scale)
{
    return w_dot_16(start, sum_n(w_zero(), u, n, max), w_sra_32(scale, 24));
}

/* One row per lane: four bytes whose sum is that of u over 16 elements. */
INLINE words add_bytes(const words u[4])
{
    const words a = w_add_8(u[0], u[1]), b = w_add_8(u[2], u[3]);
    return w_add_8(dwords_of(a, b, 0), dwords_of(a, b, 1));
}

/* Puts bits of a row's 32 above the nibbles in u. */
INLINE void add_fifth(words bits, words u[8])
{
    UNROLL
    for (int i = 0; i < 8; i++) {
        const words at = w_fours(_mm_set_epi64x(0x0404040404040404, 0));
        const words byte = w_shuffle(bits, w_add_8(at, w_bytes(i / 2 % 2 * 8 + i / 4 * 2 + i % 2)));
        u[i] = w_or_where(u[i], byte, _mm256_set1_epi64x((int64_t)0x8040201008040201), w_bytes(16));
    }
}

/* In each byte: the lowest n_low bits of p, above them n_high bits of h, which are already in place. */
INLINE words join_bits(words p, int n_low, words h, int n_high)
{
    return w_or(w_and(p, w_bytes((1 << n_low) - 1)), w_and(h, w_bytes((1 << (n_low + n_high)) - (1 << n_low))));
}

/* A field of all rows that at least 16 bytes of the block follow. */
#define OWN_FRONT
INLINE __m128i load_front(const uint8_t *w, size_t step, int r)
{
    return _mm_loadu_si128((const void *)(w + (size_t)(r % 4) * step + (size_t)(r / 4) * (4 * step)));
}
INLINE void front_uint32_t(const uint8_t *w, size_t step, uint32_t to[8])
{
    UNROLL
    for (int r = 0; r < 8; r += 4) {
        const __m128i a = _mm_unpacklo_epi32(load_front(w, step, r), load_front(w, step, r + 1));
        const __m128i b = _mm_unpacklo_epi32(load_front(w, step, r + 2), load_front(w, step, r + 3));
        _mm_store_si128((__m128i *)(void *)(to + r), _mm_unpacklo_epi64(a, b));
    }
}
INLINE void front_uint16_t(const uint8_t *w, size_t step, uint16_t to[8])
{
    __m128i v[2];
    UNROLL
    for (int r = 0; r < 8; r += 4) {
        const __m128i a = _mm_unpacklo_epi16(load_front(w, step, r), load_front(w, step, r + 1));
        const __m128i b = _mm_unpacklo_epi16(load_front(w, step, r + 2), load_front(w, step, r + 3));
        v[r / 4] = _mm_unpacklo_epi32(a, b);
    }
    _mm_store_si128((__m128i *)(void *)to, _mm_unpacklo_epi64(v[0], v[1]));
}
INLINE void front_uint8_t(const uint8_t *w, size_t step, uint8_t to[8])
{
    __m128i v[2];
    UNROLL
    for (int r = 0; r < 8; r += 4) {
        const __m128i a = _mm_unpacklo_epi8(load_front(w, step, r), load_front(w, step, r + 1));
        const __m128i b = _mm_unpacklo_epi8(load_front(w, step, r + 2), load_front(w, step, r + 3));
        v[r / 4] = _mm_unpacklo_epi16(a, b);
    }
    _mm_storel_epi64((__m128i *)(void *)to, _mm_unpacklo_epi32(v[0], v[1]));
}

#include "cpu/kernel/gemv.h"

#endif
