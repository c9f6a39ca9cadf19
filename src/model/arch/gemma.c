/* SPDX-License-Identifier: MIT */
/* src/model/arch/gemma.c
 * Gemma (2024): a Llama decoder of GELU, heads of a size of their own, and embeddings times the root of their
 * length. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

static void settle(qn_hparams *hp) { hp->embd_scale = sqrtf((float)hp->n_embd); }

const qn_arch qn__arch_gemma = {
    DECODER("gemma", QN_ROPE_NEOX),
    .block = {.ffn = {.act = QN_ACT_gelu_tanh}},
    .settle = settle,
};
