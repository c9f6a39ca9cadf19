/* SPDX-License-Identifier: MIT */
#include "cpu/avxvnni/gemv.h"
#include "cpu/kernel/gemv_256.h"
