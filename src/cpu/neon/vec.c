/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/vec.c -- this level's small kernels: kernel/vec.h over its lanes. */
#include "cpu/neon/neon.h"
#include "cpu/neon/lanes.h"

#define FN(name) qn__neon_##name
#include "cpu/kernel/vec.h"
