/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/outer.c -- outer_f32: 24 of the 32 registers are accumulators. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"

#define FN(name)      qn__avx512_##name
#define OUTER_VECTORS 4
/* SHAPE(vectors of lanes, outputs), largest first */
/* clang-format off */
#define OUTER_SHAPES(SHAPE) \
    SHAPE(4, 6) SHAPE(4, 4) SHAPE(4, 2) SHAPE(4, 1) SHAPE(3, 8) SHAPE(3, 4) SHAPE(3, 2) SHAPE(3, 1) \
    SHAPE(2, 12) SHAPE(2, 8) SHAPE(2, 6) SHAPE(2, 3) SHAPE(2, 1) SHAPE(1, 24) SHAPE(1, 12) SHAPE(1, 6) SHAPE(1, 3) \
    SHAPE(1, 1)
/* clang-format on */
#include "cpu/kernel/outer.h"
