/* SPDX-License-Identifier: MIT */
/* src/model/arch/gemma3n.c
 * Gemma 3n (2025): four versions of the stream (AltUp), a learnt residual beside attention (Laurel), an embedding for
 * each layer, first layers whose feed-forward is sparse, and last layers that read the keys and values of layers before
 * them. What files by older converters do not say is as in the published models. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(1000000.0),
    DECODER_WINDOW_BASE(5, 10000.0),
    U32_OR("attention.shared_kv_layers", n_kv_shared, 0, 0, 4095),
    U32_OR("embedding_length_per_layer_input", n_embd_layer, 256, 1, 1 << 16),
    U32_OR("altup.num_inputs", n_altup, 4, 2, QN_MAX_ALTUP),
    U32_OR("laurel.rank", n_laurel, 64, 1, 1 << 16),
    LF32_OR("activation_sparsity_scale", sparse, 0, 0, 64),
    F32_OR("final_logit_softcapping", logit_softcap, 30, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(altup_proj), "altup_proj.weight", {D_ALTUP_MORE, D_EMBD, D_EMBD}, 0},
    {TOP(altup_unembd), "altup_unembd_proj.weight", {D_ALTUP_MORE, D_EMBD, D_EMBD}, 0},
    LAYER_EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    HEAD_NORM_ROWS,
    NORM_ROW(attn_post_norm, "post_attention_norm"),
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
    NORM_ROW(ffn_post_norm, "post_ffw_norm"),
    {LAYER(altup_router), "blk.%d.altup_router.weight", {D_ALTUP, D_EMBD}, 0},
    NORM_ROW(altup_router_norm, "altup_router_norm"),
    {LAYER(altup_predict), "blk.%d.altup_predict_coef.weight", {D_ALTUP2, D_ALTUP}, 0},
    {LAYER(altup_correct), "blk.%d.altup_correct_coef.weight", {D_ALTUP, D_ALTUP}, 0},
    NORM_ROW(altup_correct_scale, "altup_correct_scale"),
    {LAYER(laurel_l), "blk.%d.laurel_l.weight", {D_LAUREL, D_EMBD}, 0},
    {LAYER(laurel_r), "blk.%d.laurel_r.weight", {D_EMBD, D_LAUREL}, 0},
    NORM_ROW(laurel_post_norm, "laurel_post_norm"),
};

/* The published models keep keys and values in their first 20 layers. */
static void settle(qn_hparams *hp)
{
    hp->embd_scale = sqrtf((float)hp->n_embd);
    hp->attn_scale = 1;
    if (!hp->n_kv_shared && hp->n_layer > 20) hp->n_kv_shared = hp->n_layer - 20;
}

/* Where no key says so, the first ten layers keep 5 % of what a normal distribution would be. */
static void layer(const qn_model *m, qn_layer *l, int i)
{
    if (m->hp.sparse == 0 && i < 10) l->spec.ffn.sparse = 1.6448533535003662f;
}

const qn_arch qn__arch_gemma3n = {
    DECODER("gemma3n", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_both,
              .attn = {.qk_norm = QN_QK_head, .v_norm = true},
              .ffn = {.act = QN_ACT_gelu_tanh}},
    .settle = settle,
    .layer = layer,
};
