/* SPDX-License-Identifier: MIT */
/* src/model/arch/phimoe.c
 * Phi-3.5-MoE (2024): norms with biases, biases everywhere in attention and of logits, two sets of frequency factors,
 * of which the context chooses. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    DECODER_COMMON_SIZES,
    EXPERTS_HPARAMS,
    RMS_EPS,
    DECODER_ROPE_NUMBERS(10000.0),
    WORD_OR("rope.scaling.type", rope_scaling, QN_ROPE_SCALING_WORDS " longrope"),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(out_norm_bias), "output_norm.bias", {D_EMBD}, W_VECTOR},
    {TOP(out_bias), "output.bias", {D_VOCAB}, W_VECTOR},
    {TOP(rope_long), "rope_factors_long.weight", {D_ROT2}, W_VECTOR | W_ONES | W_MAY_LACK},
    {TOP(rope_short), "rope_factors_short.weight", {D_ROT2}, W_VECTOR | W_ONES | W_MAY_LACK},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_norm_bias), "blk.%d.attn_norm.bias", {D_EMBD}, W_VECTOR},
    {LAYER(attn_q), "blk.%d.attn_q.weight", {D_Q, D_EMBD}, 0},
    {LAYER(attn_k), "blk.%d.attn_k.weight", {D_K, D_EMBD}, 0},
    {LAYER(attn_v), "blk.%d.attn_v.weight", {D_V, D_EMBD}, 0},
    ATTN_OUT_TENSORS(0),
    DECODER_QKV_BIASES(0),
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_norm_bias), "blk.%d.ffn_norm.bias", {D_EMBD}, W_VECTOR},
    MOE_TENSORS,
};

const qn_arch qn__arch_phimoe = {
    DECODER("phimoe", QN_ROPE_NEOX),
    .block = {.moe = {.normalise = true}},
};
