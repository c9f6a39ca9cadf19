/* SPDX-License-Identifier: MIT */
/* src/model/arch/gemma_embedding.c
 * EmbeddingGemma (Vera et al. 2025): Gemma 3 whose tokens see both ways, in five layers of six half a window to each
 * side; two matrices may come after the pooling. */
#include "model/arch/encoder.h"

static const qn_hparam_row hparams[] = {
    ENCODER_SIZES,
    RMS_EPS,
    DECODER_ROPE(1e6),
    DECODER_WINDOW_BASE(6, 10000.0),
    U32_OR("dense_2_feat_out", n_dense_2, 0, 0, 1 << 20),
    U32_OR("dense_3_feat_in", n_dense_3, 0, 0, 1 << 20),
    U32_OR("dense_3_feat_out", n_embd_out, 0, 0, 1 << 20),
};

static const qn_tensor_row tensors[] = {
    HIDDEN_TENSORS,
    {TOP(dense_2), "dense_2.weight", {D_DENSE_2, D_EMBD}, W_OPTIONAL},
    {TOP(dense_3), "dense_3.weight", {D_EMBD_OUT, D_DENSE_3}, W_OPTIONAL},
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    NORM_ROW(attn_post_norm, "post_attention_norm"),
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
    NORM_ROW(ffn_post_norm, "post_ffw_norm"),
    HEAD_NORM_ROWS,
};

static qn_status check(const qn_hparams *hp, qn_error *err)
{
    if (hp->n_dense_2 == hp->n_dense_3 && !hp->n_dense_2 == !hp->n_embd_out) return QN_OK;
    return QN_FAIL(err, format,
                   "gemma-embedding.dense_2_feat_out %u goes into dense_3_feat_in %u, and that to dense_3_feat_out %u: "
                   "the first two are the same, and all are given or none",
                   hp->n_dense_2, hp->n_dense_3, hp->n_embd_out);
}

static void settle(qn_hparams *hp) { hp->embd_scale = sqrtf((float)hp->n_embd); }

const qn_arch qn__arch_gemma_embedding = {
    DECODER("gemma-embedding", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_both, .attn = {.qk_norm = QN_QK_head}, .ffn = {.act = QN_ACT_gelu_tanh}},
    .check = check,
    .settle = settle,
};
