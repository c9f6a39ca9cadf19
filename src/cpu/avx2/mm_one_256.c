/* SPDX-License-Identifier: MIT */
#include "cpu/avx2/one.h"
#define OWN_SINGLE_256 "cpu/avx2/single_256.h"
#include "cpu/ukr_one_256.h"
