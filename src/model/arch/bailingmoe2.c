/* SPDX-License-Identifier: MIT */
/* src/model/arch/bailingmoe2.c
 * Ling 2 (2025): experts chosen in the best groups, norms of heads, queries, keys and values in one matrix. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF,    EXPERT_SHARED(1), EXPERT_SHARED_FF_OR,
    EXPERT_LEADING_DENSE, EXPERT_GATES, EXPERT_GROUPS,    NEXTN_LAYERS,
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    ATTN_OUT_TENSORS(W_MAY_LACK),
    HEAD_NORM_ROWS,
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
    MOE_TENSORS,
    MOE_BIAS_ROW,
    SHEXP_TENSORS,
};

const qn_arch qn__arch_bailingmoe2 = {
    DECODER("bailingmoe2", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}},
};
