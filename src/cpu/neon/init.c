/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/init.c -- this level's slots of the dispatch table. */
#include "cpu/neon/neon.h"

void qn__kernels_init_neon(qn_kernels *kernels)
{
    qn__neon_vec_init(kernels);
    qn__neon_math_init(kernels);
    qn__neon_layers_init(kernels);
    qn__neon_attn_init(kernels);
    qn__neon_mm_float_init(kernels);
    qn__neon_mm_gemv_init(kernels);
    qn__neon_mm_panel_init(kernels);
    kernels->outer_f64 = qn__neon_outer_f64;
    kernels->probe_read = qn__neon_probe_read;
    kernels->probe_int8 = qn__neon_probe_int8;
    kernels->probe_f32 = qn__neon_probe_f32;
}
