/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_float.c -- products with columns of floats: kernel/mm_float.h over this level's lanes. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"

enum { ROOM = QN_MM_SLICE + 16 }; /* row stride in floats; a power of two would put all rows into a few sets of L1 */

/* Loads put rows e, 4 + e, 8 + e, 12 + e into the quarters of one register: half the shuffles of transposing 16 x
 * 16. */
static inline __attribute__((always_inline)) void chunk4(const float *row, lanes *v)
{
    __m512 a[4];
    UNROLL
    for (int e = 0; e < 4; e++) {
        a[e] = _mm512_castps128_ps512(_mm_loadu_ps(row + e * ROOM));
        a[e] = _mm512_mask_broadcast_f32x4(a[e], 0x00f0, _mm_loadu_ps(row + (4 + e) * ROOM));
        a[e] = _mm512_mask_broadcast_f32x4(a[e], 0x0f00, _mm_loadu_ps(row + (8 + e) * ROOM));
        a[e] = _mm512_mask_broadcast_f32x4(a[e], 0xf000, _mm_loadu_ps(row + (12 + e) * ROOM));
    }
    const __m512d lo0 = _mm512_castps_pd(_mm512_unpacklo_ps(a[0], a[1])),
                  hi0 = _mm512_castps_pd(_mm512_unpackhi_ps(a[0], a[1]));
    const __m512d lo1 = _mm512_castps_pd(_mm512_unpacklo_ps(a[2], a[3])),
                  hi1 = _mm512_castps_pd(_mm512_unpackhi_ps(a[2], a[3]));
    v[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo0, lo1));
    v[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo0, lo1));
    v[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(hi0, hi1));
    v[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(hi0, hi1));
}

#define FN(name) qn__avx512_##name
#include "cpu/kernel/mm_float.h"

void qn__avx512_mm_float_init(qn_kernels *kernels) { mm_init(kernels); }
