/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/vec.c -- the small kernels of this level: ukr_vec.h over its lanes. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"

#define FN(name) qn__neon_##name
#include "cpu/ukr_vec.h"
