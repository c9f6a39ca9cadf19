/* SPDX-License-Identifier: MIT */
/* src/model/arch/granite.c
 * Granite 3 (2024): Llama with factors of embeddings, residuals, scores and logits. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    DECODER_FACTORS,
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

/* The file's number divides. */
static void settle(qn_hparams *hp)
{
    if (hp->logit_scale != 0) hp->logit_scale = 1 / hp->logit_scale;
}

const qn_arch qn__arch_granite = {
    DECODER("granite", QN_ROPE_NORM),
    .settle = settle,
};
