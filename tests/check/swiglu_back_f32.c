/* SPDX-License-Identifier: MIT */
/* tests/check/swiglu_back_f32.c -- the two slopes of silu(gate) up. Each result is looked at in turn; the other goes
 * aside. */
#include "check.h"

static float aside[8192];

static void gate(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->swiglu_back_f32(y, aside, in[0], in[1], in[2], n);
}
static void up(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->swiglu_back_f32(aside, y, in[0], in[1], in[2], n);
}

/* What the silu row allows, for each term; exponentials that overflow leave 0. */
static double want_gate(const float *in, double *bound)
{
    const double g = in[1], s = 1 / (1 + exp(-g)), rest = 1 / (1 + exp(g)), outer = (double)in[0] * in[2];
    *bound = fabs(outer) * (5e-7 * s * (1 + fabs(g) * rest) + 1e-36) + 1e-36;
    return outer * (s * (1 + g * rest));
}

static double want_up(const float *in, double *bound)
{
    const double y = in[0] * (in[1] / (1 + exp(-(double)in[1])));
    *bound = 4e-7 * fabs(y) + 1e-36 * (1 + fabs((double)in[0]));
    return y;
}

CHECK_KERNEL(swiglu_back_f32)
{
    check_elements(t, &(check_each){3, false, true, gate, want_gate});
    check_elements(t, &(check_each){3, false, true, up, want_up});
}
