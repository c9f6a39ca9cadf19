/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/avx2.h -- what the files of this level share. A row of kernels.def that has its own implementation
 * here is qn__avx2_NAME. */
#ifndef QN_CPU_AVX2_AVX2_H
#define QN_CPU_AVX2_AVX2_H

#include "cpu/dispatch.h"

#define QN_KERNEL(name, bound, ret, params) ret qn__avx2_##name params;
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL

/* Each fills its file's slots of the table. */
void qn__avx2_vec_init(qn_kernels *kernels);
void qn__avx2_math_init(qn_kernels *kernels);
void qn__avx2_layers_init(qn_kernels *kernels);
void qn__avx2_attn_init(qn_kernels *kernels);
void qn__avx2_mm_float_init(qn_kernels *kernels);
void qn__avx2_mm_panel_init(qn_kernels *kernels);
void qn__avx2_mm_gemv_init(qn_kernels *kernels);
void qn__avx2_streams_mm_gemv_init(qn_kernels *kernels);

#endif
