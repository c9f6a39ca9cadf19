/* SPDX-License-Identifier: MIT */
#include "cpu/avx2/gemv.h"
/* Panels are of strips: eight columns of F16 take 1.6 times the instructions here, four 1.14 times. */
#define FLOAT_FORMATS    FORMAT(F32, 4, 5) FORMAT(F16, 2, 5) FORMAT(BF16, 2, 5)
#define OWN_SINGLE_FLOAT "cpu/avx2/single_float.h"
#include "cpu/kernel/gemv_float.h"
