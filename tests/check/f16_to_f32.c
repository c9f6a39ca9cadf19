/* SPDX-License-Identifier: MIT */
/* tests/check/f16_to_f32.c -- every binary16 value becomes exactly itself. */
#include "halves.h"

static void unpack(const qn_kernels *kernels, float *y, const uint16_t *x, int64_t n) { kernels->f16_to_f32(y, x, n); }

CHECK_KERNEL(f16_to_f32) { check_half_unpack(t, &(check_half){.bits = 10, .emin = -14, .unpack = unpack}); }
