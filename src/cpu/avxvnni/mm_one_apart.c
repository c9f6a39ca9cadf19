/* SPDX-License-Identifier: MIT */
#define FN(name) qn__avxvnni_apart_##name
#include "cpu/ukr_one_apart.h"
#include "cpu/avxvnni/mm_one.c"
#include "cpu/avxvnni/mm_one_256.c"
#include "cpu/avxvnni/mm_one_32.c"
