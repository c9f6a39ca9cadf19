/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/lanes_math.h -- what kernel/math.h needs of a level beyond lanes.h. */
#ifndef QN_CPU_NEON_LANES_MATH_H
#define QN_CPU_NEON_LANES_MATH_H

#include "cpu/neon/lanes.h"
#include "cpu/kernel/math_const.h"

static inline lanes l_sqrt(lanes x) { return (lanes)EACH_1(vsqrtq_f32, x); }
static inline lanes l_abs(lanes x) { return (lanes)EACH_1(vabsq_f32, x); }
static inline float32x4_t with_sign(float32x4_t magnitude, float32x4_t s)
{
    return vbslq_f32(vdupq_n_u32(0x80000000u), s, magnitude);
}
static inline lanes l_with_sign(lanes magnitude, lanes s)
{
    return (lanes)EACH_2(with_sign, magnitude, s);
} /* magnitude >= 0 */
static inline lanes l_floor(lanes x) { return (lanes)EACH_1(vrndmq_f32, x); }
static inline lanes l_ceil(lanes x) { return (lanes)EACH_1(vrndpq_f32, x); }
static inline lanes l_rint(lanes x) { return (lanes)EACH_1(vrndnq_f32, x); }
static inline lanes l_trunc(lanes x) { return (lanes)EACH_1(vrndq_f32, x); }
static inline float32x4_t if_odd(float32x4_t t, float32x4_t yes, float32x4_t no)
{
    return vbslq_f32(vtstq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(1)), yes, no);
}
/* by the lowest bits of t: `yes` where bit 0 is set; negated where bit 1 is */
static inline lanes l_if_odd(lanes t, lanes yes, lanes no)
{
    return (lanes){if_odd(t.a, yes.a, no.a), if_odd(t.b, yes.b, no.b), if_odd(t.c, yes.c, no.c),
                   if_odd(t.d, yes.d, no.d)};
}
static inline float32x4_t negate_by(float32x4_t x, float32x4_t t)
{
    const uint32x4_t sign = vshlq_n_u32(vandq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(2)), 30);
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), sign));
}
static inline lanes l_negate_by(lanes x, lanes t) { return (lanes)EACH_2(negate_by, x, t); }
static inline float32x4_t split(float32x4_t x, float32x4_t *e)
{
    const int32x4_t bits = vreinterpretq_s32_f32(x), n = vshrq_n_s32(vsubq_s32(bits, vdupq_n_s32(QN_LOG_BITS)), 23);
    *e = vcvtq_f32_s32(n);
    return vreinterpretq_f32_s32(vsubq_s32(bits, vshlq_n_s32(n, 23)));
}
/* x = m 2^e with m in [sqrt(1/2), sqrt(2)); x normal and positive */
static inline lanes l_split(lanes x, lanes *e)
{
    return (lanes){split(x.a, &e->a), split(x.b, &e->b), split(x.c, &e->c), split(x.d, &e->d)};
}

#endif
