/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/avx512.h -- what the files of this level share. A row of kernels.def that has its own
 * implementation here is qn__avx512_NAME. */
#ifndef QN_CPU_AVX512_AVX512_H
#define QN_CPU_AVX512_AVX512_H

#include "cpu/dispatch.h"

#define QN_KERNEL(name, bound, ret, params) ret qn__avx512_##name params;
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL

/* Each fills its file's slots of the table. */
void qn__avx512_vec_init(qn_kernels *kernels);
void qn__avx512_math_init(qn_kernels *kernels);
void qn__avx512_layers_init(qn_kernels *kernels);
void qn__avx512_attn_init(qn_kernels *kernels);
void qn__avx512_mm_float_init(qn_kernels *kernels);
void qn__avx512_mm_panel_init(qn_kernels *kernels);
void qn__avx512_mm_gemv_init(qn_kernels *kernels);
void qn__avx512_streams_mm_gemv_init(qn_kernels *kernels);

#endif
