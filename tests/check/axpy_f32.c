/* SPDX-License-Identifier: MIT */
/* tests/check/axpy_f32.c -- y += a x, fused. */
#include "check.h"

static void call(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->axpy_f32(y, -0.7f, in[0], n);
}

static double want(const float *in, double *bound)
{
    const double x = -0.7f * (double)in[0];
    *bound = 2 * FLT_EPSILON * (fabs(x) + fabs((double)in[1])) + FLT_TRUE_MIN;
    return x + in[1];
}

CHECK_KERNEL(axpy_f32) { check_elements(t, &(check_each){1, true, true, call, want}); }
