/* SPDX-License-Identifier: MIT */
/* src/model/arch/jais.c
 * Jais (Sengupta et al. 2023): GPT-2 with ALiBi and SwiGLU; scores are divided by the size of a head. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {DECODER_SIZES, LAYER_EPS, ALIBI_KEY};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(out_norm_bias), "output_norm.bias", {D_EMBD}, W_VECTOR},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_norm_bias), "blk.%d.attn_norm.bias", {D_EMBD}, W_VECTOR},
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    {LAYER(attn_qkv_bias), "blk.%d.attn_qkv.bias", {D_QKV}, W_VECTOR},
    ATTN_OUT_TENSORS(0),
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_norm_bias), "blk.%d.ffn_norm.bias", {D_EMBD}, W_VECTOR},
    {LAYER(ffn_gate), "blk.%d.ffn_gate.weight", {D_FF, D_EMBD}, 0},
    {LAYER(ffn_gate_bias), "blk.%d.ffn_gate.bias", {D_FF}, W_VECTOR},
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF, D_EMBD}, 0},
    {LAYER(ffn_up_bias), "blk.%d.ffn_up.bias", {D_FF}, W_VECTOR},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
    {LAYER(ffn_down_bias), "blk.%d.ffn_down.bias", {D_EMBD}, W_VECTOR},
};

static void settle(qn_hparams *hp) { hp->attn_scale = 1.0f / (float)hp->n_embd_head_v; }

const qn_arch qn__arch_jais = {
    DECODER("jais", QN_ROPE_NORM),
    .block = {.norm = {QN_NORM_layer}, .attn = {.turn = QN_TURN_none}},
    .settle = settle,
};
