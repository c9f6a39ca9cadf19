/* SPDX-License-Identifier: MIT */
/* src/cpu/op/mul.c -- y = a * b with broadcasting. */
#include "cpu/op/elementwise.h"

#include "cpu/op/ops.h"

static void mul(const qn_task *t, float *y, const float *a, const float *b, int64_t n) { t->ukr->mul_f32(y, a, b, n); }

QN_EW_OP(mul, mul)
