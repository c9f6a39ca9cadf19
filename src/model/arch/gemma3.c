/* SPDX-License-Identifier: MIT */
/* src/model/arch/gemma3.c
 * Gemma 3 (2025): Gemma 2 without soft caps of scores, with norms of heads; five layers of six see a window and
 * rotate by a base of their own. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(1e6),
    DECODER_WINDOW_BASE(6, 10000.0),
    F32_OR("final_logit_softcapping", logit_softcap, 0, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    NORM_ROW(attn_post_norm, "post_attention_norm"),
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
    NORM_ROW(ffn_post_norm, "post_ffw_norm"),
    HEAD_NORM_ROWS,
};

/* Scores are divided by the root of the head size; the largest of the models was trained with that of its width a head.
 */
static void settle(qn_hparams *hp)
{
    hp->embd_scale = sqrtf((float)hp->n_embd);
    if (hp->n_layer == 62) hp->attn_scale = 1 / sqrtf((float)(hp->n_embd / hp->n_head));
}

const qn_arch qn__arch_gemma3 = {
    DECODER("gemma3", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_both, .attn = {.qk_norm = QN_QK_head}, .ffn = {.act = QN_ACT_gelu_tanh}},
    .settle = settle,
};
