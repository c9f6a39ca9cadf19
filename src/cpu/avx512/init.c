/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/init.c -- this level's slots of the dispatch table. */
#include "cpu/avx512/avx512.h"

void qn__kernels_init_avx512(qn_kernels *kernels)
{
    qn__avx512_vec_init(kernels);
    qn__avx512_math_init(kernels);
    qn__avx512_layers_init(kernels);
    qn__avx512_attn_init(kernels);
    qn__avx512_mm_float_init(kernels);
    qn__avx512_mm_panel_init(kernels);
    qn__avx512_streams_mm_gemv_init(kernels);
    qn__avx512_mm_gemv_init(kernels);
    kernels->outer_lanes = 64;
    kernels->outer_f64 = qn__avx512_outer_f64;
    kernels->probe_read = qn__avx512_probe_read;
    kernels->probe_int8 = qn__avx512_probe_int8;
    kernels->probe_f32 = qn__avx512_probe_f32;
}
