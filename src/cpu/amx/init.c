/* SPDX-License-Identifier: MIT */
/* src/cpu/amx/init.c -- this rung's table over the one below. */
#include "cpu/amx/amx.h"

void qn__ukr_init_amx(qn_ukr *ukr)
{
    qn__amx_attn_init(ukr);
    qn__amx_mm_bf16_init(ukr);
    qn__amx_mm_f16_init(ukr);
    qn__amx_mm_panel_init(ukr);
    qn__amx_mm_panel_32_init(ukr);
    ukr->probe_int8 = qn__amx_probe_int8;
    ukr->probe_bf16 = qn__amx_probe_bf16;
}
