/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/init.c -- this rung's table over the one below. */
#include "cpu/avx512/avx512.h"

void qn__ukr_init_avx512(qn_ukr *ukr)
{
    qn__avx512_vec_init(ukr);
    qn__avx512_math_init(ukr);
    qn__avx512_layers_init(ukr);
    qn__avx512_attn_init(ukr);
    qn__avx512_mm_float_init(ukr);
    qn__avx512_mm_panel_init(ukr);
    qn__avx512_apart_mm_one_init(ukr);
    qn__avx512_mm_one_init(ukr);
    ukr->outer_lanes = 64;
    ukr->outer_f64 = qn__avx512_outer_f64;
    ukr->probe_read = qn__avx512_probe_read;
    ukr->probe_int8 = qn__avx512_probe_int8;
    ukr->probe_f32 = qn__avx512_probe_f32;
}
