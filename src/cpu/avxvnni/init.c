/* SPDX-License-Identifier: MIT */
/* src/cpu/avxvnni/init.c -- this rung's table over avx2's. */
#include "cpu/avxvnni/avxvnni.h"

void qn__ukr_init_avxvnni(qn_ukr *ukr)
{
    qn__avxvnni_mm_panel_init(ukr);
    qn__avxvnni_apart_mm_one_init(ukr);
    qn__avxvnni_mm_one_init(ukr);
    ukr->probe_int8 = qn__avxvnni_probe_int8;
}
