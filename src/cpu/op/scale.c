/* SPDX-License-Identifier: MIT */
/* src/cpu/op/scale.c -- y = scale * x + bias. */
#include "cpu/op/elementwise.h"

#include "cpu/op/ops.h"

static void scale(const qn_task *t, float *y, const float *a, const float *b, int64_t n)
{
    const qn_scale_attrs *attrs = t->attrs;
    (void)b;
    t->ukr->scale_f32(y, a, attrs->scale, attrs->bias, n);
}

QN_EW_OP(scale, scale)
