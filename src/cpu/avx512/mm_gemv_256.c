/* SPDX-License-Identifier: MIT */
#include "cpu/avx512/gemv.h"
#define OWN_SINGLE_256 "cpu/avx512/single_256.h"
#include "cpu/kernel/gemv_256.h"
