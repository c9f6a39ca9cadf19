/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/vec.c -- this level's small kernels: kernel/vec.h over its lanes. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"

#define FN(name) qn__avx2_##name
#include "cpu/kernel/vec.h"
