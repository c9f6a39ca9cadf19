/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/scale.c -- y = scale * x + bias. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"

static void scale(const qn_task *t, void *y, const void *const *x, int64_t n)
{
    const qn_scale_attrs *attrs = t->attrs;
    t->kernels->scale_f32(y, x[0], attrs->scale, attrs->bias, n);
}
static const qn_pw pw = {.fn = {scale}};
QN_PW_DRIVER(scale, pw)
