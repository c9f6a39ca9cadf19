/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/mm_float.c -- products with columns of floats: kernel/mm_float.h over this level's lanes. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"

enum { ROOM = QN_MM_SLICE + 16 }; /* row stride in floats; a power of two would put all rows into a few sets of L1 */

/* Rows e and 4 + e share a register: transposing is four steps within its halves. */
static inline __attribute__((always_inline)) void half4(const float *row, __m256 *v)
{
    __m256 a[4];
    UNROLL
    for (int e = 0; e < 4; e++)
        a[e] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row + e * ROOM)),
                                    _mm_loadu_ps(row + (4 + e) * ROOM), 1);
    const __m256 lo0 = _mm256_unpacklo_ps(a[0], a[1]), hi0 = _mm256_unpackhi_ps(a[0], a[1]);
    const __m256 lo1 = _mm256_unpacklo_ps(a[2], a[3]), hi1 = _mm256_unpackhi_ps(a[2], a[3]);
    v[0] = _mm256_shuffle_ps(lo0, lo1, 0x44);
    v[1] = _mm256_shuffle_ps(lo0, lo1, 0xee);
    v[2] = _mm256_shuffle_ps(hi0, hi1, 0x44);
    v[3] = _mm256_shuffle_ps(hi0, hi1, 0xee);
}
static inline __attribute__((always_inline)) void chunk4(const float *row, lanes *v)
{
    __m256 a[4], b[4];
    half4(row, a);
    half4(row + 8 * ROOM, b);
    UNROLL
    for (int j = 0; j < 4; j++) v[j] = (lanes){a[j], b[j]};
}

#define PANEL_STRIP 16
#define PANEL_FROM  5
#define FN(name)    qn__avx2_##name
#include "cpu/kernel/mm_float.h"

void qn__avx2_mm_float_init(qn_kernels *kernels) { mm_init(kernels); }
