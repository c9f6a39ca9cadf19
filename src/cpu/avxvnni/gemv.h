/* SPDX-License-Identifier: MIT */
/* src/cpu/avxvnni/gemv.h -- what kernel/gemv.h needs of this level: eight rows in the lanes, and exact dot products
 * of bytes. */
#ifndef QN_CPU_AVXVNNI_GEMV_H
#define QN_CPU_AVXVNNI_GEMV_H

#include "cpu/avxvnni/avxvnni.h"
#include "cpu/avx2/gemv_lanes.h"

#ifndef FN
#define FN(name) qn__avxvnni_##name
#endif
#define GEMV_BLOCKS_ONLY           /* floats: see avx2 */

#define GEMV_KERNELS(KERNEL, name) KERNEL(name, 4)
#define GEMV_COLS_MAX              4
#define GEMV_COLS                  4
enum {
    ROWS = 8,
    GEMV_PANEL_FROM = 9,
    GEMV_PANEL_FROM_EXACT = 9,
    GEMV_PANEL_FROM_32 = 9,
    DOT_MAX = 255,
    GEMV_PAIRS = 0
};

INLINE words w_dot_8(words s, words u, words q)
{
    return _mm256_dpbusd_avx_epi32(s, u, q);
} /* s + four products of bytes, u unsigned */
INLINE words w_dot_16(words s, words a, words b) { return _mm256_dpwssd_avx_epi32(s, a, b); } /* s + two products */

#include "cpu/kernel/gemv.h"

#endif
