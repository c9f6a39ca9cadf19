/* SPDX-License-Identifier: MIT */
#include "cpu/avx2/one.h"
#define OWN_SINGLE_FLOAT "cpu/avx2/single_float.h"
#include "cpu/ukr_one_float.h"
