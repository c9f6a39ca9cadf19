/* SPDX-License-Identifier: MIT */
/* src/model/arch/stablelm.c
 * StableLM (2023): layer norms, a part of a head rotated; StableLM 2 12B normalises every head with weights of its
 * own, and has attention and feed-forward side by side with one norm. */
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
    ATTN_TENSORS,
    DECODER_QKV_BIASES(W_MAY_LACK),
    {LAYER(attn_q_norm), "blk.%d.attn_q_norm.weight", {D_HEADS, D_HEAD}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(attn_k_norm), "blk.%d.attn_k_norm.weight", {D_KV_HEADS, D_HEAD}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(ffn_norm), "blk.%d.ffn_norm.weight", {D_EMBD}, W_VECTOR | W_ONES | W_OPTIONAL},
    {LAYER(ffn_norm_bias), "blk.%d.ffn_norm.bias", {D_EMBD}, W_VECTOR | W_OPTIONAL},
    FFN_TENSORS,
};

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)m;
    (void)i;
    l->spec.parallel = !l->ffn_norm;
}

const qn_arch qn__arch_stablelm = {
    DECODER("stablelm", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .attn = {.norm = {QN_NORM_layer}, .qk_norm = QN_QK_head}},
    .layer = layer,
};
