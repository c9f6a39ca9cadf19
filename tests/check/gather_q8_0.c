/* SPDX-License-Identifier: MIT */
/* tests/check/gather_q8_0.c -- Q8_0 rows of scattered cells as floats. */
#include "gather.h"

CHECK_KERNEL(gather_q8_0) { gather_check(t, t->kernels->gather_q8_0, QN_DTYPE_Q8_0); }
