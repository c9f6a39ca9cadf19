/* SPDX-License-Identifier: MIT */
/* tests/check/attn_pack_k_f16.c -- rows of K in F16 as int16. */
#include "attn_pack_cells.h"

CHECK_KERNEL(attn_pack_k_f16) { pack_k_cells_check(t, t->kernels->attn_pack_k_f16, QN_DTYPE_F16); }
