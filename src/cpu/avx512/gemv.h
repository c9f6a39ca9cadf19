/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/gemv.h -- what kernel/gemv.h asks of this level beside its registers. */
#ifndef QN_CPU_AVX512_GEMV_H
#define QN_CPU_AVX512_GEMV_H

#include "cpu/avx512/avx512.h"
#include "cpu/avx512/gemv_lanes.h"

#ifndef FN /* mm_gemv_streams.c has these kernels too */
#define FN(name) qn__avx512_##name
#endif

/* Panels from 17 columns: Q4_K, 16 columns take 4.6 GB/s of weights here and 4.3 there, 20 columns 3.5 and 3.7. */
#define GEMV_COLS_MID 4
#define GEMV_COLS_MAX 8
enum { ROWS = 16, GEMV_PANEL_FROM = 17, DOT_MAX = 255, GEMV_PAIRS = 1 };

#include "cpu/kernel/gemv.h"

#endif
