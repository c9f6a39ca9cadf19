/* SPDX-License-Identifier: MIT */
/* tests/check/silu_f32.c -- x / (1 + exp(-x)). */
#include "check.h"

static void call(const qn_kernels *kernels, float *y, const float *const *in, int64_t n)
{
    kernels->silu_f32(y, in[0], n);
}

static double want(const float *in, double *bound)
{
    const double y = in[0] / (1 + exp(-(double)in[0]));
    *bound = 2.5e-7 * fabs(y) + 1e-36;
    return y;
}

/* One float in 4099 of all there are, every exponent and sign among them. */
static void dense(check *t)
{
    enum { N = 1024 };
    float x[N], y[N];
    check_where(t, "one float in 4099");
    for (uint64_t bits = 0; bits >> 32 == 0;) {
        int n = 0;
        for (; n < N && bits >> 32 == 0; bits += 4099) {
            const uint32_t u = (uint32_t)bits;
            memcpy(&x[n++], &u, 4);
        }
        t->kernels->silu_f32(y, x, n);
        for (int i = 0; i < n; i++) {
            double bound;
            const double exact = want(&x[i], &bound);
            check_close(t, y[i], exact, bound, i);
        }
    }
}

CHECK_KERNEL(silu_f32)
{
    check_elements(t, &(check_each){1, false, false, call, want});
    if (!t->bench) dense(t);
}
