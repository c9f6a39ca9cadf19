/* SPDX-License-Identifier: MIT */
#include "cpu/avx2/gemv.h"
#include "cpu/kernel/gemv_32.h"
