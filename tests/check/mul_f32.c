/* SPDX-License-Identifier: MIT */
/* tests/check/mul_f32.c -- y = a * b: one rounding, and that the right one. */
#include "check.h"

static void call(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->mul_f32(y, in[0], in[1], n);
}

static double want(const float *in, double *bound)
{
    *bound = 0;
    return in[0] * in[1]; /* IEEE leaves no choice */
}

CHECK_KERNEL(mul_f32) { check_elements(t, &(check_each){2, false, false, call, want}); }
