/* SPDX-License-Identifier: MIT */
/* src/model/arch/glm4moe.c
 * GLM-4.5 (2025): sigmoid scores with a bias that chooses, half of a head rotated, norms of heads in the large one. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF, EXPERT_SHARED(1), EXPERT_LEADING_DENSE, EXPERT_GATES, NEXTN_LAYERS,
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    DECODER_QKV_BIASES(W_OPTIONAL),
    {LAYER(attn_q_norm), "blk.%d.attn_q_norm.weight", {D_HEAD}, W_VECTOR | W_ONES | W_OPTIONAL},
    {LAYER(attn_k_norm), "blk.%d.attn_k_norm.weight", {D_HEAD}, W_VECTOR | W_ONES | W_OPTIONAL},
    NORM_ROW(ffn_norm, "post_attention_norm"),
    FFN_TENSORS,
    MOE_TENSORS,
    MOE_BIAS_ROW,
    SHEXP_TENSORS,
};

const qn_arch qn__arch_glm4moe = {
    DECODER("glm4moe", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}, .moe = {.score = QN_MOE_sigmoid}},
};
