/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/neon.h -- what the files of the three levels for AArch64 share. `neon` (this folder) is what every
 * such processor has; `dotprod` and `i8mm` (folders in this one) replace products of bytes. A row of kernels.def
 * that has its own implementation here is qn__neon_NAME.
 *
 * There was no machine to measure on: costs in comments are counted instructions, not measurements. */
#ifndef QN_CPU_NEON_NEON_H
#define QN_CPU_NEON_NEON_H

#include "cpu/dispatch.h"

#define QN_KERNEL(name, bound, ret, params) ret qn__neon_##name params;
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL

/* Each fills its file's slots of the table. */
void qn__neon_vec_init(qn_kernels *kernels);
void qn__neon_math_init(qn_kernels *kernels);
void qn__neon_layers_init(qn_kernels *kernels);
void qn__neon_attn_init(qn_kernels *kernels);
void qn__neon_mm_float_init(qn_kernels *kernels);
void qn__neon_mm_gemv_init(qn_kernels *kernels);
void qn__neon_mm_panel_init(qn_kernels *kernels);
int64_t qn__dotprod_probe_int8(int64_t n);
int64_t qn__i8mm_probe_int8(int64_t n);
void qn__dotprod_mm_gemv_init(qn_kernels *kernels);
void qn__dotprod_mm_panel_init(qn_kernels *kernels);
void qn__i8mm_mm_panel_init(qn_kernels *kernels);

#endif
