/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/lanes_math.h -- what ukr_math.h asks of a level beyond lanes.h. */
#ifndef QN_CPU_NEON_LANES_MATH_H
#define QN_CPU_NEON_LANES_MATH_H

#include "cpu/neon/lanes.h"
#include "cpu/ukr_math_const.h"

static inline lanes l_sqrt(lanes x) { return (lanes)EACH_1(vsqrtq_f32, x); }
static inline lanes l_abs(lanes x) { return (lanes)EACH_1(vabsq_f32, x); }
static inline float32x4_t with_sign(float32x4_t magnitude, float32x4_t s) { return vbslq_f32(vdupq_n_u32(0x80000000u), s, magnitude); }
static inline lanes l_with_sign(lanes magnitude, lanes s) { return (lanes)EACH_2(with_sign, magnitude, s); } /* magnitude >= 0 */
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
