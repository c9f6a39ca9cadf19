/* SPDX-License-Identifier: MIT */
/* src/cpu/op/swiglu.c -- y = silu(gate) * up. */
#include "cpu/op/elementwise.h"

#include "cpu/op/ops.h"

static void swiglu(const qn_task *t, float *y, const float *a, const float *b, int64_t n) { t->ukr->swiglu_f32(y, a, b, n); }

QN_EW_OP(swiglu, swiglu)
