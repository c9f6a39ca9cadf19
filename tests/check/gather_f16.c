/* SPDX-License-Identifier: MIT */
/* tests/check/gather_f16.c -- F16 rows of scattered cells as floats. */
#include "gather.h"

CHECK_KERNEL(gather_f16) { gather_check(t, t->kernels->gather_f16, QN_DTYPE_F16); }
