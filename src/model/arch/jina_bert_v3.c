/* SPDX-License-Identifier: MIT */
/* src/model/arch/jina_bert_v3.c
 * Jina embeddings 3 (Sturua et al. 2024): XLM-RoBERTa with rotary positions instead of learned ones. Its adapters for
 * tasks are LoRA files of their own. */
#include "model/arch/encoder.h"

static const qn_hparam_row hparams[] = {ENCODER_SIZES, LAYER_EPS, DECODER_ROPE(10000.0)};

static const qn_tensor_row tensors[] = {
    ENCODER_EMBD_TENSORS,
    ENCODER_ATTN_TENSORS(W_OPTIONAL),
    SUM_NORM_TENSORS,
    ENCODER_FFN_TENSORS(W_OPTIONAL),
};

const qn_arch qn__arch_jina_bert_v3 = {
    DECODER("jina-bert-v3", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .norms = QN_NORMS_sum, .ffn = {.plain = true, .act = QN_ACT_gelu}},
};
