/* SPDX-License-Identifier: MIT */
/* src/model/arch/minicpm3.c
 * MiniCPM 3 (2024): MiniCPM with latent attention; the factors are those of its one model. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    LATENT_HPARAMS(10000.0),
    U32_OF("attention.q_lora_rank", n_lora_q, 32, 1, 65536),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(rope_long), "rope_factors_long.weight", {D_ROT2}, W_VECTOR | W_ONES | W_MAY_LACK},
    {TOP(rope_short), "rope_factors_short.weight", {D_ROT2}, W_VECTOR | W_ONES | W_MAY_LACK},
    NORM_ROW(attn_norm, "attn_norm"),
    LATENT_TENSORS,
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
};

static void settle(qn_hparams *hp)
{
    hp->embd_scale = 12;
    hp->residual_scale = 1.4f / sqrtf((float)hp->n_layer);
    hp->logit_scale = 256.0f / (float)hp->n_embd;
}

const qn_arch qn__arch_minicpm3 = {
    DECODER("minicpm3", QN_ROPE_NEOX),
    .settle = settle,
};
