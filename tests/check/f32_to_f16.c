/* SPDX-License-Identifier: MIT */
/* tests/check/f32_to_f16.c -- nearest binary16, ties to even. */
#include "halves.h"

static void pack(const qn_kernels *kernels, uint16_t *y, const float *x, int64_t n) { kernels->f32_to_f16(y, x, n); }

CHECK_KERNEL(f32_to_f16) { check_half_pack(t, &(check_half){.bits = 10, .emin = -14, .pack = pack}); }
