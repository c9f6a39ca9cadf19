/* SPDX-License-Identifier: MIT */
#include "cpu/amx/one.h"
#define OWN_SINGLE_256 "cpu/avx512/single_256.h"
#include "cpu/ukr_one_256.h"
