/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/dotprod/init.c -- this rung's table over the one below. */
#include "cpu/neon/neon.h"

void qn__ukr_init_dotprod(qn_ukr *ukr)
{
    qn__dotprod_mm_one_init(ukr);
    qn__dotprod_mm_panel_init(ukr);
    ukr->probe_int8 = qn__dotprod_probe_int8;
}
