/* SPDX-License-Identifier: MIT */
/* src/model/arch/plm.c
 * PLM (2025): latent attention with whole queries, and a plain feed-forward of squared ReLU. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    LATENT_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    LATENT_TENSORS,
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
};

const qn_arch qn__arch_plm = {
    DECODER("plm", QN_ROPE_NORM),
    .block = {.ffn = {.plain = true, .act = QN_ACT_relu2}},
};
