/* SPDX-License-Identifier: MIT */
#include "cpu/avx512/one.h"
#include "cpu/ukr_one_float.h"
