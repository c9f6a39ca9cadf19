/* SPDX-License-Identifier: MIT */
#define ONE_PANEL_FROM 3
#include "cpu/avx2/one.h"
#define OWN_SINGLE_256 "cpu/avx2/single_256.h"
#include "cpu/ukr_one_256.h"
