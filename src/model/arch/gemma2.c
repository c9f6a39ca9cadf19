/* SPDX-License-Identifier: MIT */
/* src/model/arch/gemma2.c
 * Gemma 2 (2024): Gemma with norms after attention and feed-forward too, soft caps, and a window in every other
 * layer. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    DECODER_WINDOW(2),
    F32_OR("attn_logit_softcapping", attn_softcap, 50, 0, 1e6),
    F32_OR("final_logit_softcapping", logit_softcap, 30, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    NORM_ROW(attn_post_norm, "post_attention_norm"),
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
    NORM_ROW(ffn_post_norm, "post_ffw_norm"),
};

/* Scores are divided by the root of the head size; the largest of the models was trained with that of its width a head.
 */
static void settle(qn_hparams *hp)
{
    hp->embd_scale = sqrtf((float)hp->n_embd);
    if (hp->n_layer == 46) hp->attn_scale = 1 / sqrtf((float)(hp->n_embd / hp->n_head));
}

const qn_arch qn__arch_gemma2 = {
    DECODER("gemma2", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_both, .ffn = {.act = QN_ACT_gelu_tanh}},
    .settle = settle,
};
