/* SPDX-License-Identifier: MIT */
/* src/model/arch/nomic_bert_moe.c
 * Nomic BERT as a mixture of experts (Nussbaum and Duderstadt 2025): XLM-RoBERTa with rotary positions, whose second
 * layer of so many is a mixture, without a gate and without biases. */
#include "model/arch/encoder.h"
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    ENCODER_COMMON_SIZES, EXPERTS_HPARAMS, U32_OF("moe_every_n_layers", moe_second_of, 2, 2, 4096),
    EXPERT_SCALE,         LAYER_EPS,       DECODER_ROPE(10000.0),
};

static const qn_tensor_row tensors[] = {
    ENCODER_EMBD_TENSORS, ENCODER_ATTN_TENSORS(W_OPTIONAL), SUM_NORM_TENSORS, ENCODER_FFN_TENSORS(W_OPTIONAL),
    PLAIN_MOE_TENSORS,
};

const qn_arch qn__arch_nomic_bert_moe = {
    DECODER("nomic-bert-moe", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .norms = QN_NORMS_sum, .ffn = {.plain = true, .act = QN_ACT_gelu}},
};
