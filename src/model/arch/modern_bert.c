/* SPDX-License-Identifier: MIT */
/* src/model/arch/modern_bert.c
 * ModernBERT (Warner et al. 2024): layer norms before attention, but for the first, and feed-forward; a gated GELU, or
 * SiLU; one layer of three, the first of them, sees all, the others a window and with a base of their own. As a
 * reranker it has a head on the average. */
#include "model/arch/encoder.h"

static const qn_hparam_row hparams[] = {
    ENCODER_SIZES,
    LAYER_EPS,
    DECODER_ROPE(160000.0),
    DECODER_WINDOW_BASE(3, 0),
    WORD_OR("hidden_activation", silu, "gelu silu"),
};

static const qn_tensor_row tensors[] = {
    {TOP(tok_embd), "token_embd.weight", {D_VOCAB, D_EMBD}, 0},
    {TOP(embd_norm), "token_embd_norm.weight", {D_EMBD}, W_VECTOR | W_ONES},
    {TOP(out_norm), "output_norm.weight", {D_EMBD}, W_VECTOR | W_ONES},
    CLS_TENSORS(W_MAY_LACK),
    {TOP(cls_norm), "cls.norm.weight", {D_EMBD}, W_VECTOR | W_ONES | W_MAY_LACK},
    {LAYER(attn_norm), "blk.%d.attn_norm.weight", {D_EMBD}, W_VECTOR | W_ONES | W_OPTIONAL},
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    {LAYER(attn_out), "blk.%d.attn_output.weight", {D_EMBD, D_O}, 0},
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF2, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
};

static void settle(qn_hparams *hp) { hp->sees_all_first = 1; }

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)i;
    l->spec.bare_attn = !l->attn_norm;
    if (m->hp.silu == 2) l->spec.ffn.act = QN_ACT_silu;
}

const qn_arch qn__arch_modern_bert = {
    DECODER("modern-bert", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .ffn = {.fused = true, .act = QN_ACT_gelu}},
    .head = {.of = QN_HEAD_mean, .gelu = true},
    .settle = settle,
    .layer = layer,
};
