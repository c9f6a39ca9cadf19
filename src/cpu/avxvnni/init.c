/* SPDX-License-Identifier: MIT */
/* src/cpu/avxvnni/init.c -- this level's slots of the dispatch table; the others are avx2's. */
#include "cpu/avxvnni/avxvnni.h"

void qn__kernels_init_avxvnni(qn_kernels *kernels)
{
    qn__avxvnni_mm_panel_init(kernels);
    qn__avxvnni_streams_mm_gemv_init(kernels);
    qn__avxvnni_mm_gemv_init(kernels);
    kernels->probe_int8 = qn__avxvnni_probe_int8;
}
