/* SPDX-License-Identifier: MIT */
#define FN(name) qn__avx512_streams_##name
#include "cpu/kernel/gemv_streams.h"
#include "cpu/avx512/mm_gemv_256.c"
