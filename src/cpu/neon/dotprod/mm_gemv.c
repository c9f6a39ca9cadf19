/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/dotprod/mm_gemv.c -- one column: mm_gemv.h with dot products of bytes. */
#include "cpu/neon/neon.h"
#include "cpu/neon/bytes.h"

INLINE int32x4_t dot_16(int8x16_t w, int8x16_t q) { return vdotq_s32(vdupq_n_s32(0), w, q); }

INLINE int32x4_t dot_32(const int8x16_t w[2], const int8x16_t q[2], const int wide)
{
    (void)wide;
    return vdotq_s32(dot_16(w[0], q[0]), w[1], q[1]);
}

#define FN(name) qn__dotprod_##name
#include "cpu/neon/mm_gemv.h"
