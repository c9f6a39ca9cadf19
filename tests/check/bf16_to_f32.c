/* SPDX-License-Identifier: MIT */
/* tests/check/bf16_to_f32.c -- every bfloat16 value becomes exactly itself. */
#include "halves.h"

static void unpack(const qn_kernels *kernels, float *y, const uint16_t *x, int64_t n) { kernels->bf16_to_f32(y, x, n); }

CHECK_KERNEL(bf16_to_f32) { check_half_unpack(t, &(check_half){.bits = 7, .emin = -126, .unpack = unpack}); }
