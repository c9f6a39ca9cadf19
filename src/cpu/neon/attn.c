/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/attn.c -- this level's kernels of attention: kernel/attention.h over its lanes. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"
#include "backend/numbers/exp.h"

typedef struct some {
    uint32x4_t a, b, c, d;
} some; /* all bits set in the lanes of the set */

static inline uint32x4_t in4(int32x4_t at, const int32_t *begin, const int32_t *end)
{
    return vandq_u32(vcleq_s32(vld1q_s32(begin), at), vcgtq_s32(vld1q_s32(end), at));
}
static inline some some_in(int64_t c, const int32_t *begin, const int32_t *end)
{
    const int32x4_t at = vdupq_n_s32((int32_t)c);
    return (some){in4(at, begin, end), in4(at, begin + 4, end + 4), in4(at, begin + 8, end + 8),
                  in4(at, begin + 12, end + 12)};
}
static inline uint32x4_t nonzero4(float32x4_t x) { return vmvnq_u32(vceqzq_f32(x)); } /* NaN is not 0 */
static inline some some_nonzero(lanes x) { return (some)EACH_1(nonzero4, x); }
static inline lanes pick(some s, lanes yes, lanes no) { return (lanes)EACH_3(vbslq_f32, s, yes, no); }
static inline lanes power(lanes x, lanes p, lanes n, lanes t)
{
    (void)n;
    return l_keep_nan(x, l_if_less(x, l_set(QN_EXP_MIN), l_set(0), l_scale_by(p, t)));
}

enum { SIDE = 4 };
static inline __attribute__((always_inline)) void transpose_square(float *y, int64_t y_stride, const float *x,
                                                                   int64_t x_stride)
{
    float32x4_t v[4];
    UNROLL
    for (int i = 0; i < 4; i++) v[i] = vld1q_f32(x + i * x_stride);
    transpose4(v);
    UNROLL
    for (int i = 0; i < 4; i++) vst1q_f32(y + i * y_stride, v[i]);
}

/* ---- what kernel/attention_int.h needs ---- */
static inline ints i_load(const void *p)
{
    const int32_t *q = p;
    return (ints){vld1q_s32(q), vld1q_s32(q + 4), vld1q_s32(q + 8), vld1q_s32(q + 12)};
}
static inline void i_store(void *p, ints x)
{
    int32_t *q = p;
    vst1q_s32(q, x.a);
    vst1q_s32(q + 4, x.b);
    vst1q_s32(q + 8, x.c);
    vst1q_s32(q + 12, x.d);
}
static inline ints i_pair(const int16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, 4);
    return i_set(pair);
}
static inline int32x4_t dot_pairs(int32x4_t s, int32x4_t a, int32x4_t b)
{
    const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    return vaddq_s32(s, vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
}
static inline ints i_dot(ints s, ints a, ints b) { return (ints)EACH_3(dot_pairs, s, a, b); }
static inline lanes l_of_int(ints x) { return (lanes)EACH_1(vcvtq_f32_s32, x); }
static inline ints i_bits(lanes x) { return (ints)EACH_1(vreinterpretq_s32_f32, x); }
static inline ints i_and(ints x, int mask)
{
    const ints m = i_set(mask);
    return (ints)EACH_2(vandq_s32, x, m);
}
static inline ints i_magnitude(lanes x)
{
    const lanes positive = (lanes)EACH_1(vabsq_f32, x);
    return i_bits(positive);
}
static inline ints i_max(ints x, ints y) { return (ints)EACH_2(vmaxq_s32, x, y); }
static inline int32_t i_highest(ints x) { return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d))); }
static inline ints i_zero(void) { return i_set(0); }
static inline void i_to_i16(int16_t *p, ints x)
{
    vst1q_s16(p, vqmovn_high_s32(vqmovn_s32(x.a), x.b));
    vst1q_s16(p + 8, vqmovn_high_s32(vqmovn_s32(x.c), x.d));
}
static inline void i_to_i16_2(int16_t *p, ints x, ints y)
{
    i_to_i16(p, x);
    i_to_i16(p + 16, y);
}
static inline void i_low(int16_t *p, ints x)
{
    vst1q_s16(p, vmovn_high_s32(vmovn_s32(x.a), x.b));
    vst1q_s16(p + 8, vmovn_high_s32(vmovn_s32(x.c), x.d));
}
static inline int32x4_t join_halves(int32x4_t x, int32x4_t y) { return vsliq_n_s32(x, y, 16); }
static inline ints i_pairs(ints x, ints y) { return (ints)EACH_2(join_halves, x, y); }
static inline some some_between(int lo, int hi)
{
    const int32_t from[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const ints lane = i_load(from), low = i_set(lo), high = i_set(hi);
    const some after = (some)EACH_2(vcgeq_s32, lane, low), before = (some)EACH_2(vcltq_s32, lane, high);
    return (some)EACH_2(vandq_u32, after, before);
}

/* A dot product of pairs takes four instructions here: sixteen accumulators, and registers for temporaries. */
#define INT_VECTORS       1
#define INT_SHAPES(SHAPE) SHAPE(1, 4) SHAPE(1, 2) SHAPE(1, 1)

#define FN(name)          qn__neon_##name
#include "cpu/kernel/attention.h"
