/* SPDX-License-Identifier: MIT */
/* src/cpu/avxvnni/one.h -- what ukr_one.h asks of this level: eight rows in the lanes, and exact products of bytes. */
#ifndef QN_CPU_AVXVNNI_ONE_H
#define QN_CPU_AVXVNNI_ONE_H

#include "cpu/avxvnni/avxvnni.h"
#include "cpu/avx2/one_lanes.h"

#ifndef FN
#define FN(name) qn__avxvnni_##name
#endif
#define ONE_BLOCKS_ONLY /* floats are avx2's */

#define ONE_COLS_FEW    4
#define ONE_COLS_MANY   4
enum { ROWS = 8, ONE_PANEL_FROM = 9, DOT_MAX = 255, ONE_PAIRS = 0 };

INLINE words w_dot_8(words s, words u, words q)
{
    return _mm256_dpbusd_avx_epi32(s, u, q);
} /* s + four products of bytes, u without a sign */
INLINE words w_dot_16(words s, words a, words b) { return _mm256_dpwssd_avx_epi32(s, a, b); } /* s + two products */

#include "cpu/ukr_one.h"

#endif
