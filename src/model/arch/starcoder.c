/* SPDX-License-Identifier: MIT */
/* src/model/arch/starcoder.c
 * StarCoder (2023): GPT-2 whose heads share one key and value. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    LAYER_EPS,
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(pos_embd), "position_embd.weight", {D_CTX, D_EMBD}, 0},
    {TOP(out_norm_bias), "output_norm.bias", {D_EMBD}, W_VECTOR},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_norm_bias), "blk.%d.attn_norm.bias", {D_EMBD}, W_VECTOR},
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    {LAYER(attn_qkv_bias), "blk.%d.attn_qkv.bias", {D_QKV}, W_VECTOR},
    ATTN_OUT_TENSORS(0),
    PLAIN_FFN_TENSORS,
};

const qn_arch qn__arch_starcoder = {
    DECODER("starcoder", QN_ROPE_NORM),
    .block = {.norm = {QN_NORM_layer}, .attn = {.turn = QN_TURN_none}, .ffn = {.plain = true, .act = QN_ACT_gelu_tanh}},
};
