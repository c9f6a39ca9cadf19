/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/mm_gemv.c -- one column without dot products of bytes: mm_gemv.h over products that are added in 16
 * bits.
 */
#include "cpu/neon/neon.h"
#include "cpu/neon/dot.h"

#define FN(name) qn__neon_##name
#include "cpu/neon/mm_gemv.h"
