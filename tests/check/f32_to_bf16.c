/* SPDX-License-Identifier: MIT */
/* tests/check/f32_to_bf16.c -- nearest bfloat16, ties to even. */
#include "halves.h"

static void pack(const qn_kernels *kernels, uint16_t *y, const float *x, int64_t n) { kernels->f32_to_bf16(y, x, n); }

CHECK_KERNEL(f32_to_bf16) { check_half_pack(t, &(check_half){.bits = 7, .emin = -126, .pack = pack}); }
