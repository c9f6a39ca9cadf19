/* SPDX-License-Identifier: MIT */
/* src/model/arch/phi2.c
 * Phi-1.5 and Phi-2 (2023): attention and feed-forward side by side after one layer norm, biases everywhere, a part
 * of a head rotated. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    LAYER_EPS,
    DECODER_ROPE(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(out_norm_bias), "output_norm.bias", {D_EMBD}, W_VECTOR},
    {TOP(out_bias), "output.bias", {D_VOCAB}, W_VECTOR},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_norm_bias), "blk.%d.attn_norm.bias", {D_EMBD}, W_VECTOR},
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, W_MAY_LACK},
    {LAYER(attn_qkv_bias), "blk.%d.attn_qkv.bias", {D_QKV}, W_VECTOR | W_MAY_LACK},
    SPLIT_QKV_TENSORS,
    DECODER_QKV_BIASES(W_OPTIONAL),
    ATTN_OUT_TENSORS(0),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF, D_EMBD}, 0},
    {LAYER(ffn_up_bias), "blk.%d.ffn_up.bias", {D_FF}, W_VECTOR},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
    {LAYER(ffn_down_bias), "blk.%d.ffn_down.bias", {D_EMBD}, W_VECTOR},
};

const qn_arch qn__arch_phi2 = {
    DECODER("phi2", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .parallel = true, .ffn = {.plain = true, .act = QN_ACT_gelu_tanh}},
};
