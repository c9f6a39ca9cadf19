/* SPDX-License-Identifier: MIT */
#include "cpu/avx2/one.h"
#include "cpu/ukr_one_32.h"
