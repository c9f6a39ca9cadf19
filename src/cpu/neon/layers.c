/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/layers.c -- this level's norms and gates: kernel/layers.h over its lanes. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"
#include "cpu/neon/lanes_math.h"

#define FN(name) qn__neon_##name
#include "cpu/kernel/layers.h"
