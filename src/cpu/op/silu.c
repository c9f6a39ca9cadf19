/* SPDX-License-Identifier: MIT */
/* src/cpu/op/silu.c -- y = x / (1 + exp(-x)). */
#include "cpu/op/elementwise.h"

#include "cpu/op/ops.h"

static void silu(const qn_task *t, float *y, const float *a, const float *b, int64_t n)
{
    (void)b;
    t->ukr->silu_f32(y, a, n);
}

QN_EW_OP(silu, silu)
