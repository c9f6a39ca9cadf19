/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/init.c -- this level's slots of the dispatch table. */
#include "cpu/avx2/avx2.h"

void qn__kernels_init_avx2(qn_kernels *kernels)
{
    qn__avx2_vec_init(kernels);
    qn__avx2_math_init(kernels);
    qn__avx2_layers_init(kernels);
    qn__avx2_attn_init(kernels);
    qn__avx2_mm_float_init(kernels);
    qn__avx2_mm_panel_init(kernels);
    qn__avx2_streams_mm_gemv_init(kernels);
    qn__avx2_mm_gemv_init(kernels);
    kernels->outer_lanes = 16;
    kernels->outer_f64 = qn__avx2_outer_f64;
    kernels->probe_read = qn__avx2_probe_read;
    kernels->probe_int8 = qn__avx2_probe_int8;
    kernels->probe_f32 = qn__avx2_probe_f32;
}
