/* SPDX-License-Identifier: MIT */
/* tests/check/scale_f32.c -- y = s x + b, fused. */
#include "check.h"

static void call(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->scale_f32(y, in[0], 1.7f, -0.3f, n);
}

static double want(const float *in, double *bound)
{
    const double x = 1.7f * (double)in[0];
    *bound = 2 * FLT_EPSILON * (fabs(x) + 0.3) + FLT_TRUE_MIN;
    return x + -0.3f;
}

CHECK_KERNEL(scale_f32) { check_elements(t, &(check_each){1, false, true, call, want}); }
