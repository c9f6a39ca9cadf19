/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/probe.c -- the peaks of this level: enough independent chains to hide every latency, on operands that
 * the compiler can't see through. All operands are ones, so that the accumulators count the work. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"

enum { CHAINS = 16 };

uint64_t qn__neon_probe_read(const void *x, int64_t n)
{
    const uint8_t *p = x;
    uint8x16_t a[8];
    for (int j = 0; j < 8; j++) a[j] = vdupq_n_u8(0);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16, p += 128) UNROLL
    for (int j = 0; j < 8; j++) a[j] = veorq_u8(a[j], vld1q_u8(p + 16 * j));

    for (int j = 1; j < 8; j++) a[0] = veorq_u8(a[0], a[j]);
    const uint64x2_t both = vreinterpretq_u64_u8(a[0]);
    uint64_t sum = vgetq_lane_u64(both, 0) ^ vgetq_lane_u64(both, 1), word;
    for (; i < n; i++, p += 8) {
        memcpy(&word, p, 8);
        sum ^= word;
    }
    return sum;
}

/* As products of nibbles do: four times two products in 16 bits, then pairwise to 32. */
int64_t qn__neon_probe_int8(int64_t n)
{
    int32x4_t acc[8];
    int8x16_t w = vdupq_n_s8(1), q = vdupq_n_s8(1);
    for (int j = 0; j < 8; j++) acc[j] = vdupq_n_s32(0);
    for (int64_t i = 0; i < n; i += 256) {
        __asm__ volatile("" : "+w"(w), "+w"(q));
        UNROLL
        for (int j = 0; j < 8; j++) {
            const int16x8_t s = vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(q)), w, q);
            acc[j] = vpadalq_s16(acc[j], vmlal_high_s8(vmlal_s8(s, vget_low_s8(w), vget_low_s8(q)), w, q));
        }
    }
    int64_t total = 0;
    for (int j = 0; j < 8; j++) total += vaddlvq_s32(acc[j]);
    return total;
}

int64_t qn__neon_probe_f32(int64_t n)
{
    float32x4_t acc[CHAINS], u = vdupq_n_f32(1), w = vdupq_n_f32(1);
    UNROLL
    for (int j = 0; j < CHAINS; j++) acc[j] = vdupq_n_f32(0);
    __asm__ volatile("" : "+w"(u), "+w"(w));
    for (int64_t i = 0; i < n; i += 4 * CHAINS) /* n <= 2^30: a lane counts to 2^24 at most, exactly */
        UNROLL
    for (int j = 0; j < CHAINS; j++) acc[j] = vfmaq_f32(acc[j], u, w);

    int64_t total = 0;
    for (int j = 0; j < CHAINS; j++) {
        float lane[4];
        vst1q_f32(lane, acc[j]);
        for (int i = 0; i < 4; i++) total += (int64_t)lane[i];
    }
    return total;
}
