/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/gemv.h -- what kernel/gemv.h needs of this level beside its registers. */
#ifndef QN_CPU_AVX512_GEMV_H
#define QN_CPU_AVX512_GEMV_H

#include "cpu/avx512/avx512.h"
#include "cpu/avx512/gemv_lanes.h"

#ifndef FN /* mm_gemv_streams.c compiles these kernels too */
#define FN(name) qn__avx512_##name
#endif

/* With ten, some sums leave the registers; it is for what eight and one more, or two, would take. */
#define GEMV_KERNELS(KERNEL, name) KERNEL(name, 4) KERNEL(name, 8) KERNEL(name, 10)
#define GEMV_COLS_MAX              10
#define GEMV_COLS                  8
enum { ROWS = 16, GEMV_PANEL_FROM_EXACT = 17, DOT_MAX = 255, GEMV_PAIRS = 1 };
#ifdef MAX_ROW_STRIDE /* Emerald Rapids: panels are 1.2 times as fast with 16 columns of Q4_K */
enum { GEMV_PANEL_FROM = 11, GEMV_PANEL_FROM_32 = 11 };
#else /* Q4_K, GB/s of weights: 16 columns 4.6 (panel 4.3), 20 columns 3.5 (3.7) */
enum { GEMV_PANEL_FROM = 17, GEMV_PANEL_FROM_32 = 17 };
#endif

#include "cpu/kernel/gemv.h"

#endif
