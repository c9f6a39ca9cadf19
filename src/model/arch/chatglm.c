/* SPDX-License-Identifier: MIT */
/* src/model/arch/chatglm.c
 * ChatGLM 3 and GLM-4-9B (2024): biases on queries, keys and values, gate and up in one matrix, half of a head
 * rotated. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, W_MAY_LACK},
    {LAYER(attn_qkv_bias), "blk.%d.attn_qkv.bias", {D_QKV}, W_VECTOR | W_MAY_LACK},
    SPLIT_QKV_TENSORS,
    DECODER_QKV_BIASES(W_OPTIONAL),
    ATTN_OUT_TENSORS(W_MAY_LACK),
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF2, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
};

const qn_arch qn__arch_chatglm = {
    DECODER("chatglm", QN_ROPE_NORM),
    .block = {.ffn = {.fused = true}},
};
