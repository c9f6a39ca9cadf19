/* SPDX-License-Identifier: MIT */
/* src/model/arch/falcon.c
 * Falcon (2023): attention and feed-forward side by side; the large one has a norm for each, and that of attention
 * is the second. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    LAYER_EPS,
    DECODER_ROPE(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(out_norm_bias), "output_norm.bias", {D_EMBD}, W_VECTOR},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_norm_bias), "blk.%d.attn_norm.bias", {D_EMBD}, W_VECTOR},
    {LAYER(attn_norm_2), "blk.%d.attn_norm_2.weight", {D_EMBD}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(attn_norm_2_bias), "blk.%d.attn_norm_2.bias", {D_EMBD}, W_VECTOR | W_MAY_LACK},
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    ATTN_OUT_TENSORS(W_MAY_LACK),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
};

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)m;
    (void)i;
    if (!l->attn_norm_2) return;
    l->ffn_norm = l->attn_norm;
    l->ffn_norm_bias = l->attn_norm_bias;
    l->attn_norm = l->attn_norm_2;
    l->attn_norm_bias = l->attn_norm_2_bias;
}

const qn_arch qn__arch_falcon = {
    DECODER("falcon", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .parallel = true, .ffn = {.plain = true, .act = QN_ACT_gelu}},
    .layer = layer,
};
