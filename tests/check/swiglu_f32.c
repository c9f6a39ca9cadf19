/* SPDX-License-Identifier: MIT */
/* tests/check/swiglu_f32.c -- silu(gate) up. */
#include "check.h"

static void call(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->swiglu_f32(y, in[0], in[1], n);
}

static double want(const float *in, double *bound)
{
    const double y = in[0] / (1 + exp(-(double)in[0])) * in[1];
    *bound = 2.5e-7 * fabs(y) + 1e-36 * (1 + fabs((double)in[1]));
    return y;
}

CHECK_KERNEL(swiglu_f32) { check_elements(t, &(check_each){2, false, true, call, want}); }
