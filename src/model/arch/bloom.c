/* SPDX-License-Identifier: MIT */
/* src/model/arch/bloom.c
 * BLOOM (2022): ALiBi, layer norms, one of the embeddings too, queries, keys and values in one matrix, a plain
 * feed-forward of GELU. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {DECODER_SIZES, LAYER_EPS};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(embd_norm), "token_embd_norm.weight", {D_EMBD}, W_VECTOR | W_ONES},
    {TOP(embd_norm_bias), "token_embd_norm.bias", {D_EMBD}, W_VECTOR},
    {TOP(out_norm_bias), "output_norm.bias", {D_EMBD}, W_VECTOR},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_norm_bias), "blk.%d.attn_norm.bias", {D_EMBD}, W_VECTOR},
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    {LAYER(attn_qkv_bias), "blk.%d.attn_qkv.bias", {D_QKV}, W_VECTOR},
    ATTN_OUT_TENSORS(0),
    PLAIN_FFN_TENSORS,
};

static void settle(qn_hparams *hp) { hp->attn_alibi = ALIBI; }

const qn_arch qn__arch_bloom = {
    DECODER("bloom", QN_ROPE_NORM),
    .block = {.norm = {QN_NORM_layer}, .attn = {.turn = QN_TURN_none}, .ffn = {.plain = true, .act = QN_ACT_gelu_tanh}},
    .settle = settle,
};
