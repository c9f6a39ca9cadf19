/* SPDX-License-Identifier: MIT */
/* src/model/arch/command_r.c
 * Command R (2024): attention and feed-forward side by side after one layer norm without a bias, logits times a
 * factor; the large one normalises every head with weights of its own. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    LAYER_EPS,
    DECODER_ROPE(10000.0),
    F32_OR("logit_scale", logit_scale, 0, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    FFN_TENSORS,
    {LAYER(attn_q_norm), "blk.%d.attn_q_norm.weight", {D_HEADS, D_HEAD}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(attn_k_norm), "blk.%d.attn_k_norm.weight", {D_KV_HEADS, D_HEAD}, W_VECTOR | W_ONES | W_MAY_LACK},
};

const qn_arch qn__arch_command_r = {
    DECODER("command-r", QN_ROPE_NORM),
    .block = {.norm = {QN_NORM_layer}, .parallel = true, .attn = {.norm = {QN_NORM_layer}, .qk_norm = QN_QK_head}},
};
