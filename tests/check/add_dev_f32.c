/* SPDX-License-Identifier: MIT */
/* tests/check/add_dev_f32.c -- y += a ((x - mean) s), fused. */
#include "check.h"

static const float mean = 0.3f, scale = 0.37f;

static void call(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->add_dev_f32(y, in[0], in[1], mean, scale, n);
}

static double want(const float *in, double *bound)
{
    const double part = ((double)in[1] - mean) * scale * in[0];
    *bound = 2 * FLT_EPSILON * (fabs(part) + fabs((double)in[2])) + FLT_TRUE_MIN * (1 + fabs((double)in[0]));
    return part + in[2];
}

CHECK_KERNEL(add_dev_f32) { check_elements(t, &(check_each){2, true, true, call, want}); }
