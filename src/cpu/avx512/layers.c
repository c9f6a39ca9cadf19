/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/layers.c -- this level's norms and gates: kernel/layers.h over its lanes. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"
#include "cpu/avx512/lanes_math.h"

#define FN(name) qn__avx512_##name
#include "cpu/kernel/layers.h"
