/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/lanes.h -- sixteen floats as four registers: what the templates of kernel/ need of a level. Only
 * instructions of ARMv8.0. Maxima and minima are a comparison and a selection: the dedicated instructions treat NaN
 * and zeros of both signs differently from other levels. */
#ifndef QN_CPU_NEON_LANES_H
#define QN_CPU_NEON_LANES_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Before a loop with a small constant count: otherwise compilers keep accumulators in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef struct lanes {
    float32x4_t a, b, c, d;
} lanes; /* lanes 0 to 3, 4 to 7, 8 to 11, 12 to 15 */
typedef struct ints {
    int32x4_t a, b, c, d;
} ints;

/* clang-format off */
#define EACH_1(f, x) {f((x).a), f((x).b), f((x).c), f((x).d)}
#define EACH_2(f, x, y) {f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)}
#define EACH_3(f, x, y, z) {f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c), f((x).d, (y).d, \
    (z).d)}
/* clang-format on */

static inline lanes l_set(float x)
{
    const float32x4_t v = vdupq_n_f32(x);
    return (lanes){v, v, v, v};
}
static inline lanes l_load(const float *p)
{
    return (lanes){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
static inline void l_store(float *p, lanes x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
/* There are no masked loads: tails go through memory, once at the end of a row. */
static inline lanes l_load_n(const float *p, int n, lanes fill)
{
    float v[16];
    l_store(v, fill);
    memcpy(v, p, (size_t)n * sizeof *v);
    return l_load(v);
}
static inline void l_store_n(float *p, int n, lanes x)
{
    float v[16];
    l_store(v, x);
    memcpy(p, v, (size_t)n * sizeof *v);
}
static inline lanes l_first_n(int n, lanes x) /* the other lanes are 0 */
{
    float v[16];
    l_store(v, x);
    return l_load_n(v, n, l_set(0));
}

static inline float32x4_t fma4(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }
static inline float32x4_t fms4(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(vnegq_f32(z), x, y); }
static inline float32x4_t max4(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
static inline float32x4_t min4(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }

static inline lanes l_add(lanes x, lanes y) { return (lanes)EACH_2(vaddq_f32, x, y); }
static inline lanes l_sub(lanes x, lanes y) { return (lanes)EACH_2(vsubq_f32, x, y); }
static inline lanes l_mul(lanes x, lanes y) { return (lanes)EACH_2(vmulq_f32, x, y); }
static inline lanes l_div(lanes x, lanes y) { return (lanes)EACH_2(vdivq_f32, x, y); }
static inline lanes l_fma(lanes x, lanes y, lanes z) { return (lanes)EACH_3(fma4, x, y, z); }
static inline lanes l_fms(lanes x, lanes y, lanes z) { return (lanes)EACH_3(fms4, x, y, z); }
static inline float32x4_t fma_alternating(float32x4_t x, float32x4_t y, float32x4_t z)
{
    const uint32x4_t even = vreinterpretq_u32_u64(vdupq_n_u64(0x80000000u));
    return vfmaq_f32(vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(z), even)), x, y);
}
static inline lanes l_fma_alternating(lanes x, lanes y, lanes z) /* even lanes x*y - z */
{
    return (lanes)EACH_3(fma_alternating, x, y, z);
}
/* y where either is NaN */
static inline lanes l_max(lanes x, lanes y) { return (lanes)EACH_2(max4, x, y); }
static inline lanes l_min(lanes x, lanes y) { return (lanes)EACH_2(min4, x, y); }
static inline lanes l_if_less(lanes x, lanes y, lanes yes, lanes no)
{
    return (lanes){vbslq_f32(vcltq_f32(x.a, y.a), yes.a, no.a), vbslq_f32(vcltq_f32(x.b, y.b), yes.b, no.b),
                   vbslq_f32(vcltq_f32(x.c, y.c), yes.c, no.c), vbslq_f32(vcltq_f32(x.d, y.d), yes.d, no.d)};
}
static inline float32x4_t keep_nan(float32x4_t x, float32x4_t no) { return vbslq_f32(vceqq_f32(x, x), no, x); }
static inline lanes l_keep_nan(lanes x, lanes no) { return (lanes)EACH_2(keep_nan, x, no); }
static inline uint32x4_t finite4(float32x4_t x) { return vcltq_f32(vabsq_f32(x), vdupq_n_f32(__builtin_inff())); }
static inline bool l_all_finite(lanes x)
{
    const uint32x4_t all = vandq_u32(vandq_u32(finite4(x.a), finite4(x.b)), vandq_u32(finite4(x.c), finite4(x.d)));
    return vminvq_u32(all) != 0;
}
static inline float32x4_t scale_by(float32x4_t p, float32x4_t t)
{
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(vreinterpretq_s32_f32(t), 23)));
}
/* p * 2^n for the n in the low bits of t */
static inline lanes l_scale_by(lanes p, lanes t) { return (lanes)EACH_2(scale_by, p, t); }

static inline float32x4_t twice_even(float32x4_t x) { return vtrn1q_f32(x, x); }
static inline float32x4_t twice_odd(float32x4_t x) { return vtrn2q_f32(x, x); }
static inline lanes l_swap_pairs(lanes x) { return (lanes)EACH_1(vrev64q_f32, x); }
static inline lanes l_evens_twice(lanes x) { return (lanes)EACH_1(twice_even, x); }
static inline lanes l_odds_twice(lanes x) { return (lanes)EACH_1(twice_odd, x); }
/* splits 32 floats in x, y into those at even and at odd indices */
static inline void l_part(lanes x, lanes y, lanes *even, lanes *odd)
{
    *even = (lanes){vuzp1q_f32(x.a, x.b), vuzp1q_f32(x.c, x.d), vuzp1q_f32(y.a, y.b), vuzp1q_f32(y.c, y.d)};
    *odd = (lanes){vuzp2q_f32(x.a, x.b), vuzp2q_f32(x.c, x.d), vuzp2q_f32(y.a, y.b), vuzp2q_f32(y.c, y.d)};
}

static inline float l_sum(lanes x) /* the tree of kernel/lanes.h: halves of 8, of 4, of 2 */
{
    const float32x4_t s = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    const float32x2_t t = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(t, 0) + vget_lane_f32(t, 1);
}
static inline float l_highest(lanes x)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d)));
} /* no NaN inside */
static inline float l_lowest(lanes x) { return vminvq_f32(vminq_f32(vminq_f32(x.a, x.b), vminq_f32(x.c, x.d))); }

/* Subnormal numbers are converted and rounded as all others: FPCR keeps them by default. */
static inline lanes l_from_f16(const uint16_t *p)
{
    const float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(p)), y = vreinterpretq_f16_u16(vld1q_u16(p + 8));
    return (lanes){vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x), vcvt_f32_f16(vget_low_f16(y)),
                   vcvt_high_f32_f16(y)};
}
static inline void l_to_f16(uint16_t *p, lanes x)
{
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b)));
    vst1q_u16(p + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d)));
}
static inline float32x4_t upper_half(uint16x4_t x) { return vreinterpretq_f32_u32(vshll_n_u16(x, 16)); }
static inline lanes l_from_bf16(const uint16_t *p)
{
    const uint16x8_t x = vld1q_u16(p), y = vld1q_u16(p + 8);
    return (lanes){upper_half(vget_low_u16(x)), upper_half(vget_high_u16(x)), upper_half(vget_low_u16(y)),
                   upper_half(vget_high_u16(y))};
}
static inline uint32x4_t to_bf16(float32x4_t x) /* in the high half of each lane */
{
    const uint32x4_t u = vreinterpretq_u32_f32(x), odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd),
                     quiet = vorrq_u32(u, vdupq_n_u32(0x400000));
    return vbslq_u32(vceqq_f32(x, x), rounded, quiet);
}
static inline void l_to_bf16(uint16_t *p, lanes x)
{
    vst1q_u16(p, vshrn_high_n_u32(vshrn_n_u32(to_bf16(x.a), 16), to_bf16(x.b), 16));
    vst1q_u16(p + 8, vshrn_high_n_u32(vshrn_n_u32(to_bf16(x.c), 16), to_bf16(x.d), 16));
}
static inline float l_one_f16(uint16_t h)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}
static inline lanes l_from_i8(const int8_t *p)
{
    const int8x16_t x = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(x)), high = vmovl_high_s8(x);
    return (lanes){vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
                   vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))};
}

static inline ints i_set(int x)
{
    const int32x4_t v = vdupq_n_s32(x);
    return (ints){v, v, v, v};
}
static inline ints i_round(lanes x) { return (ints)EACH_1(vcvtnq_s32_f32, x); } /* to nearest, ties to even */
static inline ints i_add(ints x, ints y) { return (ints)EACH_2(vaddq_s32, x, y); }
static inline ints i_within(ints x, int lo, int hi)
{
    const ints low = i_set(lo), high = i_set(hi), capped = (ints)EACH_2(vminq_s32, x, high);
    return (ints)EACH_2(vmaxq_s32, capped, low);
}
static inline int i_sum(ints x) { return vaddvq_s32(vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d))); }
static inline void i_to_i8(int8_t *p, ints x) /* within int8 already */
{
    const int16x8_t low = vmovn_high_s32(vmovn_s32(x.a), x.b), high = vmovn_high_s32(vmovn_s32(x.c), x.d);
    vst1q_s8(p, vmovn_high_s16(vmovn_s16(low), high));
}

/* ---- squares --------------------------------------------------------------------------------- */

/* Lane r of v[j] becomes lane j of v[r]. */
static inline __attribute__((always_inline)) void transpose4(float32x4_t v[4])
{
    const float64x2_t lo0 = vreinterpretq_f64_f32(vzip1q_f32(v[0], v[1])),
                      hi0 = vreinterpretq_f64_f32(vzip2q_f32(v[0], v[1]));
    const float64x2_t lo1 = vreinterpretq_f64_f32(vzip1q_f32(v[2], v[3])),
                      hi1 = vreinterpretq_f64_f32(vzip2q_f32(v[2], v[3]));
    v[0] = vreinterpretq_f32_f64(vzip1q_f64(lo0, lo1));
    v[1] = vreinterpretq_f32_f64(vzip2q_f64(lo0, lo1));
    v[2] = vreinterpretq_f32_f64(vzip1q_f64(hi0, hi1));
    v[3] = vreinterpretq_f32_f64(vzip2q_f64(hi0, hi1));
}

#endif
