/* SPDX-License-Identifier: MIT */
/* src/cpu/op/add.c -- y = a + b with broadcasting. */
#include "cpu/op/elementwise.h"

#include "cpu/op/ops.h"

static void add(const qn_task *t, float *y, const float *a, const float *b, int64_t n) { t->ukr->add_f32(y, a, b, n); }

QN_EW_OP(add, add)
