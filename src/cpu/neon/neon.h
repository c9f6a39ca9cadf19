/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/neon.h -- what the files of the three levels for AArch64 share: `neon` (this folder) is what every such
 * processor has, `dotprod` and `i8mm` (folders in this one) replace products of bytes. Any row of ukr.def may have an
 * implementation here, qn__neon_NAME.
 *
 * No machine to measure on was at hand: what comments here say of cost is counted in instructions, not measured. */
#ifndef QN_CPU_NEON_NEON_H
#define QN_CPU_NEON_NEON_H

#include "cpu/ukr.h"

#define QN_UKR(name, bound, ret, params) ret qn__neon_##name params;
#include "cpu/ukr.def"
#undef QN_UKR

/* Each puts its file's kernels into the table. */
void qn__neon_vec_init(qn_ukr *ukr);
void qn__neon_math_init(qn_ukr *ukr);
void qn__neon_layers_init(qn_ukr *ukr);
void qn__neon_attn_init(qn_ukr *ukr);
void qn__neon_mm_float_init(qn_ukr *ukr);
void qn__neon_mm_one_init(qn_ukr *ukr);
void qn__neon_mm_panel_init(qn_ukr *ukr);
int64_t qn__dotprod_probe_int8(int64_t n);
int64_t qn__i8mm_probe_int8(int64_t n);
void qn__dotprod_mm_one_init(qn_ukr *ukr);
void qn__dotprod_mm_panel_init(qn_ukr *ukr);
void qn__i8mm_mm_panel_init(qn_ukr *ukr);

#endif
