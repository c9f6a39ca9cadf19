/* SPDX-License-Identifier: MIT */
/* src/cpu/avxvnni/avxvnni.h -- what the files of this level share: products of bytes, exact in one instruction. All
 * else is avx2's. */
#ifndef QN_CPU_AVXVNNI_AVXVNNI_H
#define QN_CPU_AVXVNNI_AVXVNNI_H

#include "cpu/ukr.h"

int64_t qn__avxvnni_probe_int8(int64_t n);
/* Each puts its file's kernels into the table. */
void qn__avxvnni_mm_one_init(qn_ukr *ukr);
void qn__avxvnni_apart_mm_one_init(qn_ukr *ukr);
void qn__avxvnni_mm_panel_init(qn_ukr *ukr);

#endif
