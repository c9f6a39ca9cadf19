/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/math.c -- this level's functions of floats: kernel/math.h over its lanes. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"
#include "cpu/avx512/lanes_math.h"

#define FN(name) qn__avx512_##name
#include "cpu/kernel/math.h"
