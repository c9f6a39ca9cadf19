/* SPDX-License-Identifier: MIT */
/* src/model/arch/jina_bert_v2.c
 * Jina embeddings 2 (Günther et al. 2023): BERT with ALiBi both ways, and a feed-forward with a gate of GELU. Of code
 * queries and keys are normalised, and the stream twice. As a reranker it has a head on its first token. */
#include "model/arch/encoder.h"

static const qn_hparam_row hparams[] = {ENCODER_SIZES, LAYER_EPS, ALIBI_KEY};

static const qn_tensor_row tensors[] = {
    ENCODER_EMBD_TENSORS,
    {TOP(cls), "cls.weight", {D_ONE, D_EMBD}, W_MAY_LACK},
    {TOP(cls_bias), "cls.bias", {D_ONE}, W_VECTOR | W_MAY_LACK},
    ENCODER_ATTN_TENSORS(W_OPTIONAL),
    {LAYER(attn_q_norm), "blk.%d.attn_q_norm.weight", {D_Q}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(attn_q_norm_bias), "blk.%d.attn_q_norm.bias", {D_Q}, W_VECTOR | W_MAY_LACK},
    {LAYER(attn_k_norm), "blk.%d.attn_k_norm.weight", {D_K}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(attn_k_norm_bias), "blk.%d.attn_k_norm.bias", {D_K}, W_VECTOR | W_MAY_LACK},
    SUM_NORM_TENSORS,
    {LAYER(attn_norm_2), "blk.%d.attn_norm_2.weight", {D_EMBD}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(attn_norm_2_bias), "blk.%d.attn_norm_2.bias", {D_EMBD}, W_VECTOR | W_MAY_LACK},
    {LAYER(ffn_gate), "blk.%d.ffn_gate.weight", {D_FF, D_EMBD}, W_OPTIONAL},
    ENCODER_FFN_TENSORS(W_OPTIONAL),
};

/* Some have no gate. */
static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)m, (void)i;
    l->spec.ffn.plain = !l->ffn_gate;
}

const qn_arch qn__arch_jina_bert_v2 = {
    DECODER("jina-bert-v2", QN_ROPE_NORM),
    .block = {.norm = {QN_NORM_layer},
              .norms = QN_NORMS_sum,
              .attn = {.turn = QN_TURN_none, .norm = {QN_NORM_layer}, .qk_norm = QN_QK_row},
              .ffn = {.act = QN_ACT_gelu}},
    .layer = layer,
};
