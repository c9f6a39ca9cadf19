/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/init.c -- this rung's table over the one below. */
#include "cpu/avx2/avx2.h"

void qn__ukr_init_avx2(qn_ukr *ukr)
{
    qn__avx2_vec_init(ukr);
    qn__avx2_math_init(ukr);
    qn__avx2_layers_init(ukr);
    qn__avx2_attn_init(ukr);
    qn__avx2_mm_float_init(ukr);
    qn__avx2_mm_panel_init(ukr);
    qn__avx2_apart_mm_one_init(ukr);
    qn__avx2_mm_one_init(ukr);
    ukr->outer_lanes = 16;
    ukr->outer_f64 = qn__avx2_outer_f64;
    ukr->probe_read = qn__avx2_probe_read;
    ukr->probe_int8 = qn__avx2_probe_int8;
    ukr->probe_f32 = qn__avx2_probe_f32;
}
