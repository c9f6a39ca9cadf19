/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/layers.c -- this level's norms and gates: kernel/layers.h over its lanes. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"
#include "cpu/avx2/lanes_math.h"

#define FN(name) qn__avx2_##name
#include "cpu/kernel/layers.h"
