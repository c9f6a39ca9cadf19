/* SPDX-License-Identifier: MIT */
/* src/model/arch/cohere2.c
 * Command R7B (2024): Command R with a window in three layers of four, which alone rotate. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES, LAYER_EPS, DECODER_ROPE(10000.0), F32_OR("logit_scale", logit_scale, 0, 0, 1e6), DECODER_WINDOW(4),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    FFN_TENSORS,
};

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)m;
    (void)i;
    l->spec.attn.turn = l->hp.windowed ? QN_TURN_full : QN_TURN_none;
}

const qn_arch qn__arch_cohere2 = {
    DECODER("cohere2", QN_ROPE_NORM),
    .block = {.norm = {QN_NORM_layer}, .parallel = true},
    .layer = layer,
};
