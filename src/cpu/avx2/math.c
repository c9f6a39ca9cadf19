/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/math.c -- this level's functions of floats: kernel/math.h over its lanes. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"
#include "cpu/avx2/lanes_math.h"

#define FN(name) qn__avx2_##name
#include "cpu/kernel/math.h"
