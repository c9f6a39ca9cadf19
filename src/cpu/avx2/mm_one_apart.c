/* SPDX-License-Identifier: MIT */
#define FN(name) qn__avx2_apart_##name
#include "cpu/ukr_one_apart.h"
#include "cpu/avx2/mm_one.c"
#include "cpu/avx2/mm_one_256.c"
#include "cpu/avx2/mm_one_32.c"
#include "cpu/avx2/mm_one_float.c"
