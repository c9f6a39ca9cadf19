/* SPDX-License-Identifier: MIT */
/* tests/check/gather_bf16.c -- BF16 rows of scattered cells as floats. */
#include "gather.h"

CHECK_KERNEL(gather_bf16) { gather_check(t, t->kernels->gather_bf16, QN_DTYPE_BF16); }
