/* SPDX-License-Identifier: MIT */
/* src/cpu/op/swiglu.c -- y = silu(gate) * up. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise.h"

static void swiglu(const qn_task *t, void *y, const void *const *x, int64_t n) { t->ukr->swiglu_f32(y, x[0], x[1], n); }
static const qn_pw pw = {.fn = {swiglu}};
QN_PW_DRIVER(swiglu, pw)
