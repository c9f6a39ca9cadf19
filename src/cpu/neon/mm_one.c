/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/mm_one.c -- one column without dot products of bytes: mm_one.h over products that are added in 16 bits.
 */
#include "cpu/neon/neon.h"
#include "cpu/neon/dot.h"

#define FN(name) qn__neon_##name
#include "cpu/neon/mm_one.h"
