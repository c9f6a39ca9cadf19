/* SPDX-License-Identifier: MIT */
/* src/model/arch/nomic_bert.c
 * Nomic BERT (Nussbaum et al. 2024): BERT with rotary positions and a gated feed-forward, without biases. */
#include "model/arch/encoder.h"

static const qn_hparam_row hparams[] = {ENCODER_SIZES, LAYER_EPS, DECODER_ROPE(10000.0)};

static const qn_tensor_row tensors[] = {
    ENCODER_EMBD_TENSORS,
    ENCODER_ATTN_TENSORS(W_MAY_LACK),
    SUM_NORM_TENSORS,
    {LAYER(ffn_gate), "blk.%d.ffn_gate.weight", {D_FF, D_EMBD}, 0},
    ENCODER_FFN_TENSORS(W_MAY_LACK),
};

const qn_arch qn__arch_nomic_bert = {
    DECODER("nomic-bert", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .norms = QN_NORMS_sum},
};
