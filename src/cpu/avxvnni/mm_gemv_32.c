/* SPDX-License-Identifier: MIT */
#include "cpu/avxvnni/gemv.h"
#include "cpu/kernel/gemv_32.h"
