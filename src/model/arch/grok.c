/* SPDX-License-Identifier: MIT */
/* src/model/arch/grok.c
 * Grok (2024): norms before and after, scores capped, a mixture of experts, in Grok 2 with a dense feed-forward beside
 * it. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    U32_OR("expert_feed_forward_length", n_ff_exp, 0, 1, 1 << 22),
    F32_OR("attn_logit_softcapping", attn_softcap, 30, 0, 1e6),
    F32_OR("final_logit_softcapping", logit_softcap, 0, 0, 1e6),
    F32_OR("logit_scale", logit_scale, 0.5773502691896257, 0, 1e6),
    F32_OR("embedding_scale", embd_scale, 78.38367176906169, 0, 1e6),
    F32_OR("attention.output_scale", attn_scale, 0.08838834764831845, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    NORM_ROW(attn_post_norm, "attn_output_norm"),
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_gate), "blk.%d.ffn_gate.weight", {D_FF, D_EMBD}, W_OPTIONAL},
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF, D_EMBD}, W_OPTIONAL},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, W_OPTIONAL},
    MOE_TENSORS,
    NORM_ROW(ffn_post_norm, "layer_output_norm"),
};

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)m, (void)i;
    if (l->ffn_up) l->spec.moe.sum_scale = sqrtf(0.5f);
}

const qn_arch qn__arch_grok = {
    DECODER("grok", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_both, .ffn = {.act = QN_ACT_gelu_tanh}, .moe = {.normalise = true}},
    .layer = layer,
};
