/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen.c
 * Qwen (2023): queries, keys and values in one matrix with biases; the file's feed-forward length counts gate and up
 * together. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    {LAYER(attn_qkv_bias), "blk.%d.attn_qkv.bias", {D_QKV}, W_VECTOR},
    ATTN_OUT_TENSORS(W_MAY_LACK),
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_gate), "blk.%d.ffn_gate.weight", {D_FF_HALF, D_EMBD}, 0},
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF_HALF, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF_HALF}, 0},
};

const qn_arch qn__arch_qwen = {
    DECODER("qwen", QN_ROPE_NEOX),
};
