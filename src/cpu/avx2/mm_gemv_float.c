/* SPDX-License-Identifier: MIT */
#include "cpu/avx2/gemv.h"
/* Panels come in strips here: F16 with eight columns takes 1.6 times the instructions in a gemv kernel, with four
 * 1.14 times. */
#define FLOAT_FORMATS    FORMAT(F32, 4, 5) FORMAT(F16, 2, 5) FORMAT(BF16, 2, 5)
#define OWN_SINGLE_FLOAT "cpu/avx2/single_float.h"
#include "cpu/kernel/gemv_float.h"
