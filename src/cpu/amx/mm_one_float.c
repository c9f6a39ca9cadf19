/* SPDX-License-Identifier: MIT */
#include "cpu/amx/one.h"
#include "cpu/ukr_one_float.h"
