/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/init.c -- the first rung: fills every slot of the table. */
#include "cpu/ref/ref.h"

void qn__ukr_init_ref(qn_ukr *ukr)
{
    *ukr = (qn_ukr){.level = QN_CPU_ref, .outer_lanes = 64};
#define QN_UKR(name, bound, ret, params) ukr->name = qn__ref_##name;
#include "cpu/ukr.def"
#undef QN_UKR
    for (int t = 0; t < QN_DTYPE_COUNT; t++) ukr->unpack[t] = qn__quant_get((qn_dtype)t)->unpack;
    qn__ref_mm_init(ukr);
}
