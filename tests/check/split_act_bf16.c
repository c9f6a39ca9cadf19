/* SPDX-License-Identifier: MIT */
/* tests/check/split_act_bf16.c -- columns as two bfloat16, in pairs. */
#include "split_act.h"

static void split(const qn_kernels *kernels, void *y, const float *x, int64_t n) { kernels->split_act_bf16(y, x, n); }
static double part(const void *y, int64_t i, int p)
{
    return (double)qn__bf16_to_f32(((const qn_act_bf16 *)y)[i / 32].x[i % 32 / 2][p][i % 2]);
}
static void copy(void *to, const void *from, int64_t i, int p)
{
    ((qn_act_bf16 *)to)[i / 32].x[i % 32 / 2][p][i % 2] = ((const qn_act_bf16 *)from)[i / 32].x[i % 32 / 2][p][i % 2];
}

CHECK_KERNEL(split_act_bf16)
{
    static const split_kind kind = {32, sizeof(qn_act_bf16), 2, split, part, copy};
    split_check(t, &kind);
}
