/* SPDX-License-Identifier: MIT */
/* src/cpu/avxvnni/avxvnni.h -- what the files of this level share: exact dot products of bytes in one instruction.
 * Everything else is avx2's. */
#ifndef QN_CPU_AVXVNNI_AVXVNNI_H
#define QN_CPU_AVXVNNI_AVXVNNI_H

#include "cpu/dispatch.h"

int64_t qn__avxvnni_probe_int8(int64_t n);
/* Each fills its file's slots of the table. */
void qn__avxvnni_mm_gemv_init(qn_kernels *kernels);
void qn__avxvnni_streams_mm_gemv_init(qn_kernels *kernels);
void qn__avxvnni_mm_panel_init(qn_kernels *kernels);

#endif
