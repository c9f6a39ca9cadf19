/* SPDX-License-Identifier: MIT */
#define FN(name) qn__avx2_streams_##name
#include "cpu/kernel/gemv_streams.h"
#include "cpu/avx2/mm_gemv_256.c"
