/* SPDX-License-Identifier: MIT */
/* tests/check/split_act512.c -- columns as two bfloat16 that stand as floats. */
#include "split_act.h"

static void split(const qn_kernels *kernels, void *y, const float *x, int64_t n) { kernels->split_act512(y, x, n); }
static double part(const void *y, int64_t i, int p) { return (double)((const qn_act512 *)y)[i / 512].x[p][i % 512]; }
static void copy(void *to, const void *from, int64_t i, int p)
{
    ((qn_act512 *)to)[i / 512].x[p][i % 512] = ((const qn_act512 *)from)[i / 512].x[p][i % 512];
}

CHECK_KERNEL(split_act512)
{
    static const split_kind kind = {512, sizeof(qn_act512), 4, split, part, copy};
    split_check(t, &kind);
}
