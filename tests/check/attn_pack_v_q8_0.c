/* SPDX-License-Identifier: MIT */
/* tests/check/attn_pack_v_q8_0.c -- rows of V in Q8_0 as int16. */
#include "attn_pack_cells.h"

CHECK_KERNEL(attn_pack_v_q8_0) { pack_v_cells_check(t, t->kernels->attn_pack_v_q8_0, QN_DTYPE_Q8_0); }
