/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/outer.c -- outer_f32: 12 of the 16 registers are accumulators, two of them sixteen lanes. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"

#define FN(name) qn__avx2_##name
#define OUTER_VECTORS 1
/* SHAPE(vectors of lanes, outputs), the largest first */
#define OUTER_SHAPES(SHAPE) SHAPE(1, 6) SHAPE(1, 3) SHAPE(1, 1)
#include "cpu/ukr_outer.h"
