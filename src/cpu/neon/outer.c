/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/outer.c -- outer_f32: 24 of the 32 registers are accumulators; four registers are sixteen lanes. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"

#define FN(name)            qn__neon_##name
#define OUTER_VECTORS       1
/* SHAPE(vectors of lanes, outputs), largest first */
#define OUTER_SHAPES(SHAPE) SHAPE(1, 6) SHAPE(1, 3) SHAPE(1, 1)
#include "cpu/kernel/outer.h"
