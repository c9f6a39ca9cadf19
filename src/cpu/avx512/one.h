/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/one.h -- what ukr_one.h asks of this level beside its registers. */
#ifndef QN_CPU_AVX512_ONE_H
#define QN_CPU_AVX512_ONE_H

#include "cpu/avx512/avx512.h"
#include "cpu/avx512/one_lanes.h"

#ifndef FN /* mm_one_apart.c has these kernels too */
#define FN(name) qn__avx512_##name
#endif

/* Panels from 17 columns: Q4_K, 16 columns take 4.6 GB/s of weights here and 4.3 there, 20 columns 3.5 and 3.7. */
#define ONE_COLS_FEW  4
#define ONE_COLS_MANY 8
enum { ROWS = 16, ONE_PANEL_FROM = 17, DOT_MAX = 255, ONE_PAIRS = 1 };

#include "cpu/ukr_one.h"

#endif
