/* SPDX-License-Identifier: MIT */
/* src/cpu/amx/init.c -- this level's slots of the dispatch table. */
#include "cpu/amx/amx.h"

void qn__kernels_init_amx(qn_kernels *kernels)
{
    qn__amx_attn_init(kernels);
    qn__amx_mm_bf16_init(kernels);
    qn__amx_mm_f16_init(kernels);
    qn__amx_mm_panel_init(kernels);
    qn__amx_mm_panel_32_init(kernels);
    kernels->probe_int8 = qn__amx_probe_int8;
    kernels->probe_bf16 = qn__amx_probe_bf16;
}
