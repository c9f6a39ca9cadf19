/* SPDX-License-Identifier: MIT */
/* tests/check/normalize_f32.c -- (x - mean) s, with w and with w and b. */
#include "check.h"

static const float mean = 0.3f, scale = 0.37f;

static void alone(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->normalize_f32(y, in[0], mean, scale, NULL, NULL, n);
}
static void with_w(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->normalize_f32(y, in[0], mean, scale, in[1], NULL, n);
}
static void with_b(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->normalize_f32(y, in[0], mean, scale, in[1], in[2], n);
}

static double want(const float *in, double w, double b, double *bound)
{
    const double y = ((double)in[0] - mean) * scale * w;
    *bound = 2 * FLT_EPSILON * (fabs(y) + fabs(b)) + FLT_TRUE_MIN * (1 + fabs(w));
    return y + b;
}

static double want_x(const float *in, double *bound) { return want(in, 1, 0, bound); }
static double want_w(const float *in, double *bound) { return want(in, in[1], 0, bound); }
static double want_b(const float *in, double *bound) { return want(in, in[1], in[2], bound); }

CHECK_KERNEL(normalize_f32)
{
    check_elements(t, &(check_each){3, false, true, with_b, want_b});
    check_elements(t, &(check_each){2, false, true, with_w, want_w});
    check_elements(t, &(check_each){1, false, true, alone, want_x});
}
