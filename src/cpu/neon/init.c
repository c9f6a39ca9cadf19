/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/init.c -- this rung's table over the one below. */
#include "cpu/neon/neon.h"

void qn__ukr_init_neon(qn_ukr *ukr)
{
    qn__neon_vec_init(ukr);
    qn__neon_math_init(ukr);
    qn__neon_layers_init(ukr);
    qn__neon_attn_init(ukr);
    qn__neon_mm_float_init(ukr);
    qn__neon_mm_one_init(ukr);
    qn__neon_mm_panel_init(ukr);
    ukr->outer_f64 = qn__neon_outer_f64;
    ukr->probe_read = qn__neon_probe_read;
    ukr->probe_int8 = qn__neon_probe_int8;
    ukr->probe_f32 = qn__neon_probe_f32;
}
