/* SPDX-License-Identifier: MIT */
/* src/model/arch/exaone4.c
 * EXAONE 4 (2025): norms after attention and feed-forward, norms of heads; the large one sees a window in three
 * layers of four, and rotates in these alone. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    DECODER_WINDOW(4),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    ROPE_TENSORS,
    ATTN_TENSORS,
    HEAD_NORM_ROWS,
    NORM_ROW(attn_post_norm, "post_attention_norm"),
    FFN_TENSORS,
    NORM_ROW(ffn_post_norm, "post_ffw_norm"),
};

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)i;
    if (m->hp.n_window) l->spec.attn.turn = l->hp.windowed ? QN_TURN_full : QN_TURN_none;
}

const qn_arch qn__arch_exaone4 = {
    DECODER("exaone4", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_after, .attn = {.qk_norm = QN_QK_head}},
    .layer = layer,
};
