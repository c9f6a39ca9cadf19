/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/dot.h -- dot products of bytes without dot product instructions, as four lanes whose total is the
 * sum. |q| <= 127, so two products fit 16 bits for any w; for w that is not wide 16 do (4 in a lane: 4 * 32 * 127 =
 * 16256, and as much from a second register). */
#ifndef QN_CPU_NEON_DOT_H
#define QN_CPU_NEON_DOT_H

#include "cpu/neon/bytes.h"

INLINE int16x8_t products(int8x16_t w, int8x16_t q)
{
    return vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(q)), w, q);
}

INLINE int32x4_t dot_16(int8x16_t w, int8x16_t q) { return vpaddlq_s16(products(w, q)); }

INLINE int32x4_t dot_32(const int8x16_t w[2], const int8x16_t q[2], const int wide)
{
    const int16x8_t first = products(w[0], q[0]);
    if (wide) return vpadalq_s16(vpaddlq_s16(first), products(w[1], q[1]));
    return vpaddlq_s16(vmlal_high_s8(vmlal_s8(first, vget_low_s8(w[1]), vget_low_s8(q[1])), w[1], q[1]));
}

#endif
