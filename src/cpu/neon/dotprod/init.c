/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/dotprod/init.c -- this level's slots of the dispatch table. */
#include "cpu/neon/neon.h"

void qn__kernels_init_dotprod(qn_kernels *kernels)
{
    qn__dotprod_mm_gemv_init(kernels);
    qn__dotprod_mm_panel_init(kernels);
    kernels->probe_int8 = qn__dotprod_probe_int8;
}
