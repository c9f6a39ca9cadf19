/* SPDX-License-Identifier: MIT */
#include "cpu/avx512/gemv.h"
#include "cpu/kernel/gemv_driver.h"
