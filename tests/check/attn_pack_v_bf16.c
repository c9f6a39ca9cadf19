/* SPDX-License-Identifier: MIT */
/* tests/check/attn_pack_v_bf16.c -- rows of V in BF16 as int16. */
#include "attn_pack_cells.h"

CHECK_KERNEL(attn_pack_v_bf16) { pack_v_cells_check(t, t->kernels->attn_pack_v_bf16, QN_DTYPE_BF16); }
