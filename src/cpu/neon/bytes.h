/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/bytes.h -- blocks of the formats that have integer products (act.h), loaded to registers: 32 weights
 * as signed bytes w, and scales of four rows, one row a lane (kernel/block_ints.h defines w, scale and min). Only
 * instructions of ARMv8.0; each file that includes this compiles it for its own level. */
#ifndef QN_CPU_NEON_BYTES_H
#define QN_CPU_NEON_BYTES_H

#include "cpu/neon/lanes.h"
#include "cpu/kernel/block_ints.h"

#define INLINE       static inline __attribute__((always_inline))

/* Where w is not wide, sixteen products fit 16 bits, and the sum of two of a row's weights fits a byte. */
#define WIDE(lo, hi) ((lo) < -32 || (hi) > 32)

INLINE uint8x16_t low_nibbles(uint8x16_t x) { return vandq_u8(x, vdupq_n_u8(15)); }
INLINE uint8x16_t high_nibbles(uint8x16_t x) { return vshrq_n_u8(x, 4); }
INLINE int8x16_t as_signed(uint8x16_t x) { return vreinterpretq_s8_u8(x); }
INLINE uint8x16_t shifted(uint8x16_t x, int left)
{
    return vshlq_u8(x, vdupq_n_s8((int8_t)left));
} /* negative shifts right */

/* Lane r: the sum of v[r]. */
INLINE int32x4_t sum_each(const int32x4_t v[4]) { return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3])); }

/* Partial sums of four and eight bytes; their total is the sum of all. */
INLINE int32x4_t sums_16(int8x16_t w) { return vpaddlq_s16(vpaddlq_s8(w)); }
INLINE int32x4_t sums_32(const int8x16_t w[2]) { return vpaddlq_s16(vpadalq_s8(vpaddlq_s8(w[0]), w[1])); }

INLINE float32x4_t four_f16(const uint16_t h[4]) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h))); }

/* ---- blocks of 32: head_NAME sets d (and m) of four rows, `step` bytes apart; w32_NAME the weights of one --- */

#define FOUR_F16(out, type, field) \
    do { \
        uint16x4_t h_ = vdup_n_u16(((const type *)(const void *)w)->field); \
        h_ = vset_lane_u16(((const type *)(const void *)(w + step))->field, h_, 1); \
        h_ = vset_lane_u16(((const type *)(const void *)(w + 2 * step))->field, h_, 2); \
        h_ = vset_lane_u16(((const type *)(const void *)(w + 3 * step))->field, h_, 3); \
        (out) = vcvt_f32_f16(vreinterpret_f16_u16(h_)); \
    } while (0)

typedef struct head32 {
    float32x4_t d, m;
} head32;

#define HEAD_D(name) \
    INLINE void head_##name(const uint8_t *w, size_t step, head32 *h) { FOUR_F16(h->d, qn_block_##name, d); }
#define HEAD_DM(name) \
    INLINE void head_##name(const uint8_t *w, size_t step, head32 *h) \
    { \
        FOUR_F16(h->d, qn_block_##name, d); \
        FOUR_F16(h->m, qn_block_##name, m); \
    }
/* clang-format off */
HEAD_D(Q4_0) HEAD_DM(Q4_1) HEAD_D(Q5_0) HEAD_DM(Q5_1) HEAD_D(Q8_0) HEAD_D(IQ4_NL)
/* clang-format on */
#undef HEAD_D
#undef HEAD_DM

INLINE void head_MXFP4(const uint8_t *w, size_t step, head32 *h) /* 2^(e - 128): a normal number from e = 2 on */
{
    const uint32_t bytes[4] = {w[0], w[step], w[2 * step], w[3 * step]};
    const uint32x4_t e = vld1q_u32(bytes), normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    const uint32x4_t small = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
    h->d = vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), small, normal));
}

INLINE void nibbles(const uint8_t qs[16], uint8x16_t u[2])
{
    const uint8x16_t x = vld1q_u8(qs);
    u[0] = low_nibbles(x);
    u[1] = high_nibbles(x);
}

/* All bits of byte i are set where bit i of qh is set. */
INLINE void fifth_bits(uint32_t qh, uint8x16_t set[2])
{
    const uint8x16_t each = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201)),
                     all = vreinterpretq_u8_u32(vdupq_n_u32(qh));
    const uint8x16_t at = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
    set[0] = vtstq_u8(vqtbl1q_u8(all, at), each);
    set[1] = vtstq_u8(vqtbl1q_u8(all, vaddq_u8(at, vdupq_n_u8(2))), each);
}

INLINE void w32_Q4_0(const uint8_t *block, int8x16_t w[2])
{
    uint8x16_t u[2];
    nibbles(((const qn_block_Q4_0 *)block)->qs, u);
    UNROLL
    for (int i = 0; i < 2; i++) w[i] = vsubq_s8(as_signed(u[i]), vdupq_n_s8(8));
}

INLINE void w32_Q4_1(const uint8_t *block, int8x16_t w[2])
{
    uint8x16_t u[2];
    nibbles(((const qn_block_Q4_1 *)block)->qs, u);
    UNROLL
    for (int i = 0; i < 2; i++) w[i] = as_signed(u[i]);
}

INLINE void w32_Q5_0(const uint8_t *block, int8x16_t w[2])
{
    const qn_block_Q5_0 *b = (const void *)block;
    uint8x16_t u[2], set[2];
    nibbles(b->qs, u);
    fifth_bits(b->qh, set);
    /* - 16 without */
    UNROLL
    for (int i = 0; i < 2; i++) w[i] = as_signed(vorrq_u8(u[i], vbicq_u8(vdupq_n_u8(0xf0), set[i])));
}

INLINE void w32_Q5_1(const uint8_t *block, int8x16_t w[2])
{
    const qn_block_Q5_1 *b = (const void *)block;
    uint8x16_t u[2], set[2];
    nibbles(b->qs, u);
    fifth_bits(b->qh, set);
    UNROLL
    for (int i = 0; i < 2; i++) w[i] = as_signed(vorrq_u8(u[i], vandq_u8(vdupq_n_u8(16), set[i])));
}

INLINE void w32_Q8_0(const uint8_t *block, int8x16_t w[2])
{
    const qn_block_Q8_0 *b = (const void *)block;
    w[0] = vld1q_s8(b->qs);
    w[1] = vld1q_s8(b->qs + 16);
}

INLINE void look_up(const int8_t values[16], const uint8_t qs[16], int8x16_t w[2])
{
    const int8x16_t table = vld1q_s8(values);
    uint8x16_t u[2];
    nibbles(qs, u);
    UNROLL
    for (int i = 0; i < 2; i++) w[i] = vqtbl1q_s8(table, u[i]);
}

INLINE void w32_IQ4_NL(const uint8_t *block, int8x16_t w[2])
{
    look_up(qn__iq4_values, ((const qn_block_IQ4_NL *)block)->qs, w);
}

INLINE void w32_MXFP4(const uint8_t *block, int8x16_t w[2])
{
    look_up(qn__fp4_values, ((const qn_block_MXFP4 *)block)->qs, w);
}

/* ---- super-blocks: subs_NAME gives scales (and minima) of one row, 16 or 8 and zeros; w32_NAME weights from 32
 * (STEP * c + i) on, where i < STEP_NAME: parts that share bytes ---- */

enum { STEP_Q2_K = 4, STEP_Q3_K = 4, STEP_Q4_K = 2, STEP_Q5_K = 2, STEP_Q6_K = 4, STEP_IQ4_XS = 1 };

typedef struct subs {
    int8x16_t scale, min;
} subs;

INLINE void subs_Q2_K(const uint8_t *block, subs *s)
{
    const uint8x16_t x = vld1q_u8(((const qn_block_Q2_K *)block)->scales);
    s->scale = as_signed(low_nibbles(x));
    s->min = as_signed(high_nibbles(x));
}
INLINE void w32_Q2_K(const uint8_t *block, int c, const int i, int8x16_t w[2])
{
    const uint8_t *qs = ((const qn_block_Q2_K *)block)->qs + 32 * c;
    UNROLL
    for (int h = 0; h < 2; h++) w[h] = as_signed(vandq_u8(shifted(vld1q_u8(qs + 16 * h), -2 * i), vdupq_n_u8(3)));
}

INLINE void subs_Q3_K(const uint8_t *block, subs *s)
{
    const qn_block_Q3_K *b = (const void *)block;
    const int8x16_t by = vreinterpretq_s8_u32((uint32x4_t){0, 0xfefefefe, 0xfcfcfcfc, 0xfafafafa}); /* 0, -2, -4, -6 */
    const uint8x8_t x = vld1_u8(b->scales);
    const uint8x16_t low = vcombine_u8(vand_u8(x, vdup_n_u8(15)), vshr_n_u8(x, 4));
    uint32_t upper;
    memcpy(&upper, b->scales + 8, 4);
    const uint8x16_t high = vandq_u8(vshlq_u8(vreinterpretq_u8_u32(vdupq_n_u32(upper)), by), vdupq_n_u8(3));
    s->scale = vsubq_s8(as_signed(vsliq_n_u8(low, high, 4)), vdupq_n_s8(32));
}
INLINE void w32_Q3_K(const uint8_t *block, int c, const int i, int8x16_t w[2])
{
    const qn_block_Q3_K *b = (const void *)block;
    const uint8x16_t bit = vdupq_n_u8((uint8_t)(1 << (4 * c + i)));
    UNROLL
    for (int h = 0; h < 2; h++) {
        const uint8x16_t low = vandq_u8(shifted(vld1q_u8(b->qs + 32 * c + 16 * h), -2 * i), vdupq_n_u8(3));
        const uint8x16_t set = vtstq_u8(vld1q_u8(b->hmask + 16 * h), bit);
        w[h] = as_signed(vorrq_u8(low, vbicq_u8(vdupq_n_u8(0xfc), set))); /* - 4 without */
    }
}

/* Six bits each, eight scales and eight minima in twelve bytes: as 32-bit words, on the scalar units. */
INLINE void subs_k4(const uint8_t scales[12], subs *s)
{
    uint32_t v[3];
    memcpy(v, scales, 12);
    const uint32_t scale0 = v[0] & 0x3f3f3f3f, scale1 = (v[2] & 0x0f0f0f0f) | (v[0] >> 2 & 0x30303030);
    const uint32_t min0 = v[1] & 0x3f3f3f3f, min1 = (v[2] >> 4 & 0x0f0f0f0f) | (v[1] >> 2 & 0x30303030);
    s->scale = vcombine_s8(vcreate_s8(scale0 | (uint64_t)scale1 << 32), vdup_n_s8(0));
    s->min = vcombine_s8(vcreate_s8(min0 | (uint64_t)min1 << 32), vdup_n_s8(0));
}

INLINE void subs_Q4_K(const uint8_t *block, subs *s) { subs_k4(((const qn_block_Q4_K *)block)->scales, s); }
INLINE void w32_Q4_K(const uint8_t *block, int c, const int i, int8x16_t w[2])
{
    const uint8_t *qs = ((const qn_block_Q4_K *)block)->qs + 32 * c;
    UNROLL
    for (int h = 0; h < 2; h++) {
        const uint8x16_t x = vld1q_u8(qs + 16 * h);
        w[h] = as_signed(i ? high_nibbles(x) : low_nibbles(x));
    }
}

INLINE void subs_Q5_K(const uint8_t *block, subs *s) { subs_k4(((const qn_block_Q5_K *)block)->scales, s); }
INLINE void w32_Q5_K(const uint8_t *block, int c, const int i, int8x16_t w[2])
{
    const qn_block_Q5_K *b = (const void *)block;
    UNROLL
    for (int h = 0; h < 2; h++) {
        const uint8x16_t x = vld1q_u8(b->qs + 32 * c + 16 * h), low = i ? high_nibbles(x) : low_nibbles(x);
        const uint8x16_t high = vandq_u8(shifted(vld1q_u8(b->qh + 16 * h), 4 - 2 * c - i), vdupq_n_u8(16));
        w[h] = as_signed(vorrq_u8(low, high));
    }
}

INLINE void subs_Q6_K(const uint8_t *block, subs *s) { s->scale = vld1q_s8(((const qn_block_Q6_K *)block)->scales); }
INLINE void w32_Q6_K(const uint8_t *block, int c, const int i, int8x16_t w[2])
{
    const qn_block_Q6_K *b = (const void *)block;
    UNROLL
    for (int h = 0; h < 2; h++) {
        const uint8x16_t x = vld1q_u8(b->ql + 64 * c + i % 2 * 32 + 16 * h),
                         low = i / 2 ? high_nibbles(x) : low_nibbles(x);
        const uint8x16_t high = vandq_u8(shifted(vld1q_u8(b->qh + 32 * c + 16 * h), 4 - 2 * i), vdupq_n_u8(0x30));
        w[h] = vsubq_s8(as_signed(vorrq_u8(low, high)), vdupq_n_s8(32));
    }
}

INLINE void subs_IQ4_XS(const uint8_t *block, subs *s)
{
    const qn_block_IQ4_XS *b = (const void *)block;
    const int8x8_t by = vreinterpret_s8_u32(vdup_n_u32(0xfafcfe00)); /* 0, -2, -4, -6, twice */
    uint32_t lower;
    memcpy(&lower, b->scales_l, 4);
    const uint8x8_t x = vreinterpret_u8_u32(vdup_n_u32(lower)),
                    low = vzip1_u8(vand_u8(x, vdup_n_u8(15)), vshr_n_u8(x, 4));
    const uint8x8_t first = vdup_n_u8((uint8_t)b->scales_h), second = vdup_n_u8((uint8_t)(b->scales_h >> 8));
    const uint8x8_t upper = vreinterpret_u8_u32(vzip1_u32(vreinterpret_u32_u8(first), vreinterpret_u32_u8(second)));
    const uint8x8_t six = vsli_n_u8(low, vand_u8(vshl_u8(upper, by), vdup_n_u8(3)), 4);
    s->scale = vcombine_s8(vsub_s8(vreinterpret_s8_u8(six), vdup_n_s8(32)), vdup_n_s8(0));
}
INLINE void w32_IQ4_XS(const uint8_t *block, int c, const int i, int8x16_t w[2])
{
    (void)i;
    look_up(qn__iq4_values, ((const qn_block_IQ4_XS *)block)->qs + 16 * c, w);
}

#define HEAD_D(name) \
    INLINE void head_##name(const uint8_t *w, size_t step, head32 *h) { FOUR_F16(h->d, qn_block_##name, d); }
#define HEAD_DM(name) \
    INLINE void head_##name(const uint8_t *w, size_t step, head32 *h) \
    { \
        FOUR_F16(h->d, qn_block_##name, d); \
        FOUR_F16(h->m, qn_block_##name, dmin); \
    }
/* clang-format off */
HEAD_DM(Q2_K) HEAD_D(Q3_K) HEAD_DM(Q4_K) HEAD_DM(Q5_K) HEAD_D(Q6_K) HEAD_D(IQ4_XS)
/* clang-format on */
#undef HEAD_D
#undef HEAD_DM

/* Lane r of out[j]: byte j of v[r]. */
INLINE void rows_to_lanes(const int8x16_t v[4], int32x4_t out[16])
{
    const int8x16_t even0 = vzip1q_s8(v[0], v[2]), odd0 = vzip1q_s8(v[1], v[3]);
    const int8x16_t even1 = vzip2q_s8(v[0], v[2]), odd1 = vzip2q_s8(v[1], v[3]);
    const int8x16_t all[4] = {vzip1q_s8(even0, odd0), vzip2q_s8(even0, odd0), vzip1q_s8(even1, odd1),
                              vzip2q_s8(even1, odd1)};
    UNROLL
    for (int i = 0; i < 4; i++) {
        const int16x8_t low = vmovl_s8(vget_low_s8(all[i])), high = vmovl_high_s8(all[i]);
        out[4 * i] = vmovl_s16(vget_low_s16(low));
        out[4 * i + 1] = vmovl_high_s16(low);
        out[4 * i + 2] = vmovl_s16(vget_low_s16(high));
        out[4 * i + 3] = vmovl_high_s16(high);
    }
}

#endif
