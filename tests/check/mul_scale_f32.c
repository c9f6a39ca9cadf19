/* SPDX-License-Identifier: MIT */
/* tests/check/mul_scale_f32.c -- y = (x s) w, with and without w. */
#include "check.h"

static const float scale = 0.37f;

static void with_w(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->mul_scale_f32(y, in[0], in[1], scale, n);
}

static double want_w(const float *in, double *bound)
{
    const double y = (double)in[0] * scale * in[1];
    *bound = 2 * FLT_EPSILON * fabs(y) + FLT_TRUE_MIN * (1 + fabs((double)in[1]));
    return y;
}

static void without_w(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->mul_scale_f32(y, in[0], NULL, scale, n);
}

static double want_x(const float *in, double *bound)
{
    const double y = (double)in[0] * scale;
    *bound = FLT_EPSILON * fabs(y) + FLT_TRUE_MIN;
    return y;
}

CHECK_KERNEL(mul_scale_f32)
{
    check_elements(t, &(check_each){2, false, true, with_w, want_w});
    check_elements(t, &(check_each){1, false, true, without_w, want_x});
}
