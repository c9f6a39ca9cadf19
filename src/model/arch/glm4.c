/* SPDX-License-Identifier: MIT */
/* src/model/arch/glm4.c
 * GLM-4 (2025): norms before and after, gate and up in one matrix, half of a head rotated. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    DECODER_QKV_BIASES(W_MAY_LACK),
    NORM_ROW(attn_post_norm, "post_attention_norm"),
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF2, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
    NORM_ROW(ffn_post_norm, "post_ffw_norm"),
};

const qn_arch qn__arch_glm4 = {
    DECODER("glm4", QN_ROPE_NORM),
    .block = {.norms = QN_NORMS_both, .ffn = {.fused = true}},
};
