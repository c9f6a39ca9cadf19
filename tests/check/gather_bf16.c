/* SPDX-License-Identifier: MIT */
/* tests/check/gather_bf16.c -- BF16 rows of scattered cells as floats. */
#include "gather.h"

CHECK_UKR(gather_bf16) { gather_check(t, t->ukr->gather_bf16, QN_DTYPE_BF16); }
