/* SPDX-License-Identifier: MIT */
/* src/model/arch/plamo3.c
 * PLaMo 3 (2025): norms before and after and of heads, fused matrices, and a window with a base of its own in every
 * other layer. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    DECODER_WINDOW(2),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    HEAD_NORM_ROWS,
    ATTN_OUT_TENSORS(W_MAY_LACK),
    {LAYER(attn_post_norm), "blk.%d.post_attention_norm", {D_EMBD}, W_VECTOR | W_ONES},
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF2, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
    {LAYER(ffn_post_norm), "blk.%d.post_ffw_norm", {D_EMBD}, W_VECTOR | W_ONES},
};

const qn_arch qn__arch_plamo3 = {
    DECODER("plamo3", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_both, .attn = {.qk_norm = QN_QK_head}, .ffn = {.fused = true}},
};
