/* SPDX-License-Identifier: MIT */
/* src/model/arch/minicpm.c
 * MiniCPM (2024): Llama with factors of embeddings, residuals and logits. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    DECODER_FACTORS,
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

/* Older files name none: those of the one model that there was. */
static void settle(qn_hparams *hp)
{
    if (hp->embd_scale == 0) hp->embd_scale = 12;
    if (hp->residual_scale == 0) hp->residual_scale = 1.4f / sqrtf((float)hp->n_layer);
    hp->logit_scale = hp->logit_scale != 0 ? 1 / hp->logit_scale : 256.0f / (float)hp->n_embd;
}

const qn_arch qn__arch_minicpm = {
    DECODER("minicpm", QN_ROPE_NORM),
    .settle = settle,
};
