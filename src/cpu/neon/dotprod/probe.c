/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/dotprod/probe.c -- the peak of dot products of bytes: sixteen multiply-adds an instruction. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"

enum { CHAINS = 16 };

int64_t qn__dotprod_probe_int8(int64_t n)
{
    int32x4_t acc[CHAINS];
    int8x16_t w = vdupq_n_s8(1), q = vdupq_n_s8(1);
    UNROLL
    for (int j = 0; j < CHAINS; j++) acc[j] = vdupq_n_s32(0);
    __asm__ volatile("" : "+w"(w), "+w"(q));
    for (int64_t i = 0; i < n; i += 16 * CHAINS) UNROLL
    for (int j = 0; j < CHAINS; j++) acc[j] = vdotq_s32(acc[j], w, q);

    int64_t total = 0;
    for (int j = 0; j < CHAINS; j++) total += vaddlvq_s32(acc[j]);
    return total;
}
