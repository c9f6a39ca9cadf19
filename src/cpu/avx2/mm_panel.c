/* SPDX-License-Identifier: MIT */
#include "cpu/avx2/avx2.h"

#define FN(name) qn__avx2_##name
#include "cpu/avx2/panel.h"
