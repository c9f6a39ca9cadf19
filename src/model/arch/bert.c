/* SPDX-License-Identifier: MIT */
/* src/model/arch/bert.c
 * BERT (Devlin et al. 2018) and its relatives, XLM-RoBERTa among them: learned positions, layer norms of the sums, a
 * plain feed-forward of GELU; every token sees all others. As a reranker it has a head on its first token. */
#include "model/arch/encoder.h"

static const qn_hparam_row hparams[] = {ENCODER_SIZES, LAYER_EPS};

static const qn_tensor_row tensors[] = {
    ENCODER_EMBD_TENSORS,    {TOP(pos_embd), "position_embd.weight", {D_CTX, D_EMBD}, 0},
    CLS_TENSORS(W_MAY_LACK), ENCODER_ATTN_TENSORS(W_OPTIONAL),
    SUM_NORM_TENSORS,        ENCODER_FFN_TENSORS(W_OPTIONAL),
};

const qn_arch qn__arch_bert = {
    DECODER("bert", QN_ROPE_NORM),
    .block = {.norm = {QN_NORM_layer},
              .norms = QN_NORMS_sum,
              .attn = {.turn = QN_TURN_none},
              .ffn = {.plain = true, .act = QN_ACT_gelu}},
};
