/* SPDX-License-Identifier: MIT */
#define FN(name) qn__avx2_streams_##name
#include "cpu/kernel/gemv_streams.h"
#include "cpu/avx2/mm_gemv.c"
#include "cpu/avx2/mm_gemv_32.c"
#include "cpu/avx2/mm_gemv_float.c"
