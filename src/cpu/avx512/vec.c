/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/vec.c -- this level's small kernels: kernel/vec.h over its lanes. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"

#define FN(name) qn__avx512_##name
#define OWN_QUANTIZE_ACT
#include "cpu/kernel/vec.h"
