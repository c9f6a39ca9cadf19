/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/one.h -- what ukr_one.h asks of this level. There is no exact product of bytes here: maddubs adds two products of an
 * unsigned and a signed byte in 16 bits and saturates. Bytes to DOT_MAX never do, and products of small ones are added in 16 bits as far
 * as they fit; for greater ones |v| meets q with v's sign, v = u - 128: 2 * 128 * 127 at most. */
#ifndef QN_CPU_AVX2_ONE_H
#define QN_CPU_AVX2_ONE_H

#include "cpu/avx2/avx2.h"
#include "cpu/avx2/one_lanes.h"

#include <string.h>

#define FN(name) qn__avx2_##name

#define ONE_COLS_FEW 4
#define ONE_COLS_MANY 4
enum { ROWS = 8, ONE_PANEL_FROM = 9, DOT_MAX = 128 };

INLINE words pairs_to_words(words x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }
INLINE words w_dot_8(words s, words u, words q) { return w_add_32(s, pairs_to_words(_mm256_maddubs_epi16(u, q))); } /* s + four products of bytes, u at most DOT_MAX */
INLINE words w_dot_16(words s, words a, words b) { return w_add_32(s, _mm256_madd_epi16(a, b)); } /* s + two products */

/* Compilers would add in another order, all products first, for which there are not enough registers. */
#define IN_ORDER(x) __asm__("" : "+x"(x))

#define OWN_DOTS
INLINE words four_at(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return w_set(v);
}

/* s[c] += sum of (u - SHIFT(max)) q over 4 n elements; column c's q stand c * stride bytes after those of column 0 */
INLINE void dots_n(const int nc, words *s, const words *u, const int8_t *q, size_t stride, int n, int max)
{
    if (max > DOT_MAX) {
        UNROLL for (int i = 0; i < n; i++) {
            const words v = w_xor(u[i], w_bytes(-128)), size = _mm256_abs_epi8(v);
            UNROLL for (int c = 0; c < nc; c++) {
                const words x = _mm256_sign_epi8(four_at(q + (size_t)c * stride + 4 * i), v);
                s[c] = w_add_32(s[c], pairs_to_words(_mm256_maddubs_epi16(size, x)));
                IN_ORDER(s[c]);
            }
        }
        return;
    }
    const int fit = 32767 / (2 * max * 127), step = fit < n ? fit : n;
    UNROLL for (int first = 0; first < n; first += step) {
        UNROLL for (int c = 0; c < nc; c++) {
            const int8_t *at = q + (size_t)c * stride;
            words t = _mm256_maddubs_epi16(u[first], four_at(at + 4 * first));
            UNROLL for (int i = first + 1; i < first + step; i++) {
                if (i >= n) break;
                t = _mm256_add_epi16(t, _mm256_maddubs_epi16(u[i], four_at(at + 4 * i)));
                IN_ORDER(t);
            }
            s[c] = w_add_32(s[c], pairs_to_words(t));
        }
    }
}

/* start + sum of u over 4 n elements, each at most `max` */
INLINE words sum_n(words start, const words *u, int n, int max)
{
    const int group = 255 / max < n ? 255 / max : n;
    words sum = w_zero();
    UNROLL for (int i = 0; i < n; i += group) {
        words bytes = u[i];
        UNROLL for (int j = 1; j < group; j++)
            if (i + j < n) bytes = w_add_8(bytes, u[i + j]);
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(bytes, w_bytes(1)));
    }
    return w_add_32(start, pairs_to_words(sum));
}

#include "cpu/ukr_one.h"

#endif
