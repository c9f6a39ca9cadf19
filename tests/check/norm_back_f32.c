/* SPDX-License-Identifier: MIT */
/* tests/check/norm_back_f32.c -- p a w + (q (x - mean) + r). */
#include "check.h"

static const float mean = 0.3f, p = 0.7f, q = -0.2f, r = 0.01f;

static void with_w(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->norm_back_f32(y, in[0], in[1], in[2], mean, p, q, r, n);
}
static void alone(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->norm_back_f32(y, in[0], NULL, in[1], mean, p, q, r, n);
}

static double want(double a, double w, double x, double *bound)
{
    const double of_a = p * a * w, of_x = q * (x - mean);
    *bound = 2 * FLT_EPSILON * (fabs(of_a) + fabs(of_x) + fabs((double)r)) + 2 * FLT_TRUE_MIN;
    return of_a + of_x + r;
}

static double want_w(const float *in, double *bound) { return want(in[0], in[1], in[2], bound); }
static double want_a(const float *in, double *bound) { return want(in[0], 1, in[1], bound); }

CHECK_KERNEL(norm_back_f32)
{
    check_elements(t, &(check_each){3, false, true, with_w, want_w});
    check_elements(t, &(check_each){2, false, true, alone, want_a});
}
