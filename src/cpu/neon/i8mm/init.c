/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/i8mm/init.c -- this level's slots of the dispatch table. One column stays with dot products: a
 * product of matrices would leave half of its columns empty. */
#include "cpu/neon/neon.h"

void qn__kernels_init_i8mm(qn_kernels *kernels)
{
    qn__i8mm_mm_panel_init(kernels);
    kernels->probe_int8 = qn__i8mm_probe_int8;
}
