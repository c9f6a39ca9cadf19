/* SPDX-License-Identifier: MIT */
#define FN(name) qn__avxvnni_streams_##name
#include "cpu/kernel/gemv_streams.h"
#include "cpu/avxvnni/mm_gemv.c"
#include "cpu/avxvnni/mm_gemv_32.c"
