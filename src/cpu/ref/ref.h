/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/ref.h -- the reference level: portable C, kernels.def and dispatch.h written out. Every row has an
 * implementation here, qn__ref_NAME, or the library does not link. */
#ifndef QN_CPU_REF_REF_H
#define QN_CPU_REF_REF_H

#include "cpu/dispatch.h"

#define QN_KERNEL(name, bound, ret, params) ret qn__ref_##name params;
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL

/* Fills mm[]: one product for each real and block dtype. The unpack slots must be filled. */
void qn__ref_mm_init(qn_kernels *kernels);
void qn__ref_mm_float_init(qn_kernels *kernels); /* those with columns of floats; qn__ref_mm_init calls it */

/* lane[j] = fma(x[i], y[i], lane[j]) for i = j (mod 16), in order; past n come zeros */
void qn__ref_lanes(float lane[16], const float *x, const float *y, int64_t n);

/* QN_REF_FMA(name, params, args): void name params, whose body is name_body, an inline function, compiled twice: with
 * fmaf as an instruction, for processors that have it, and as a call. Both are exact. Calls were two thirds of this
 * level's time, and every other level is compared with it. */
#define QN_REF_BODY static inline __attribute__((always_inline)) void
#ifdef __x86_64__
#define QN_REF_FMA(name, params, args) \
    static __attribute__((target("fma"))) void name##_fma params { name##_body args; } \
    static __attribute__((noinline)) void name##_call params { name##_body args; } \
    void name params \
    { \
        if (__builtin_cpu_supports("fma")) \
            name##_fma args; \
        else \
            name##_call args; \
    }
#else
#define QN_REF_FMA(name, params, args) \
    void name params { name##_body args; }
#endif

/* sum of sixteen lanes, by the tree of kernel/lanes.h */
static inline float qn__ref_sum16(const float lane[16])
{
    float s[8];
    for (int j = 0; j < 8; j++) s[j] = lane[j] + lane[j + 8];
    for (int half = 4; half > 0; half /= 2)
        for (int j = 0; j < half; j++) s[j] += s[j + half];
    return s[0];
}

#endif
