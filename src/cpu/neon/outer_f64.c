/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/outer_f64.c -- kernel/outer_f64.h over four registers. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"

typedef struct wide {
    float64x2_t a, b, c, d;
} wide;
static inline wide w_set(double x)
{
    const float64x2_t v = vdupq_n_f64(x);
    return (wide){v, v, v, v};
}
static inline wide w_load(const double *p)
{
    return (wide){vld1q_f64(p), vld1q_f64(p + 2), vld1q_f64(p + 4), vld1q_f64(p + 6)};
}
static inline void w_store(double *p, wide x)
{
    vst1q_f64(p, x.a);
    vst1q_f64(p + 2, x.b);
    vst1q_f64(p + 4, x.c);
    vst1q_f64(p + 6, x.d);
}
static inline float64x2_t fma2(float64x2_t x, float64x2_t y, float64x2_t z) { return vfmaq_f64(z, x, y); }
static inline wide w_add(wide x, wide y) { return (wide)EACH_2(vaddq_f64, x, y); }
static inline wide w_fma(wide x, wide y, wide z) { return (wide)EACH_3(fma2, x, y, z); }

#define FN(name) qn__neon_##name
#include "cpu/kernel/outer_f64.h"
