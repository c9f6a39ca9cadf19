/* SPDX-License-Identifier: MIT */
/* src/model/arch/mpt.c
 * MPT (2023): ALiBi, or learned positions; layer norms, mostly without biases; queries, keys and values in one matrix
 * and clamped, a plain feed-forward of GELU. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    LAYER_EPS,
    F32_OR("attention.max_alibi_bias", attn_alibi, 0, 0, 1e3),
    F32_OR("attention.clamp_kqv", qkv_clamp, 0, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(pos_embd), "position_embd.weight", {D_CTX, D_EMBD}, W_MAY_LACK},
    {TOP(out_norm_bias), "output_norm.bias", {D_EMBD}, W_VECTOR | W_MAY_LACK},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_norm_bias), "blk.%d.attn_norm.bias", {D_EMBD}, W_VECTOR | W_MAY_LACK},
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    {LAYER(attn_qkv_bias), "blk.%d.attn_qkv.bias", {D_QKV}, W_VECTOR | W_MAY_LACK},
    {LAYER(attn_q_norm), "blk.%d.attn_q_norm.weight", {D_Q}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(attn_q_norm_bias), "blk.%d.attn_q_norm.bias", {D_Q}, W_VECTOR | W_MAY_LACK},
    {LAYER(attn_k_norm), "blk.%d.attn_k_norm.weight", {D_K}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(attn_k_norm_bias), "blk.%d.attn_k_norm.bias", {D_K}, W_VECTOR | W_MAY_LACK},
    ATTN_OUT_TENSORS(W_MAY_LACK),
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_norm_bias), "blk.%d.ffn_norm.bias", {D_EMBD}, W_VECTOR | W_MAY_LACK},
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF, D_EMBD}, 0},
    {LAYER(ffn_up_bias), "blk.%d.ffn_up.bias", {D_FF}, W_VECTOR | W_MAY_LACK},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
    {LAYER(ffn_down_bias), "blk.%d.ffn_down.bias", {D_EMBD}, W_VECTOR | W_MAY_LACK},
};

const qn_arch qn__arch_mpt = {
    DECODER("mpt", QN_ROPE_NORM),
    .block = {.norm = {QN_NORM_layer},
              .attn = {.turn = QN_TURN_none, .norm = {QN_NORM_layer}, .qk_norm = QN_QK_row},
              .ffn = {.plain = true, .act = QN_ACT_gelu}},
};
