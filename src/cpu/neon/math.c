/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/math.c -- this level's functions of floats: kernel/math.h over its lanes. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"
#include "cpu/neon/lanes_math.h"

#define FN(name) qn__neon_##name
#include "cpu/kernel/math.h"
