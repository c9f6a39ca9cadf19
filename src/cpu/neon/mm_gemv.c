/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/mm_gemv.c -- one column without dot product instructions: mm_gemv.h with products that are added in
 * 16 bits. */
#include "cpu/neon/neon.h"
#include "cpu/neon/dot.h"

#define FN(name) qn__neon_##name
#include "cpu/neon/mm_gemv.h"
