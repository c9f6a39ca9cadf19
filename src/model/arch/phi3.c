/* SPDX-License-Identifier: MIT */
/* src/model/arch/phi3.c
 * Phi-3 and Phi-4-mini (2024): gate and up in one matrix, queries, keys and values in one or three, and two sets of
 * frequency factors, of which the context chooses. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    RMS_EPS,
    DECODER_ROPE_NUMBERS(10000.0),
    DECODER_WINDOW(0),
    WORD_OR("rope.scaling.type", rope_scaling, QN_ROPE_SCALING_WORDS " longrope"),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(rope_long), "rope_factors_long.weight", {D_ROT2}, W_VECTOR | W_ONES | W_MAY_LACK},
    {TOP(rope_short), "rope_factors_short.weight", {D_ROT2}, W_VECTOR | W_ONES | W_MAY_LACK},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, W_MAY_LACK},
    SPLIT_QKV_TENSORS,
    ATTN_OUT_TENSORS(W_MAY_LACK),
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF2, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
};

const qn_arch qn__arch_phi3 = {
    DECODER("phi3", QN_ROPE_NEOX),
    .block = {.ffn = {.fused = true}},
};
