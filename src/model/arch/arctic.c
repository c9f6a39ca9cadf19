/* SPDX-License-Identifier: MIT */
/* src/model/arch/arctic.c
 * Arctic (2024): a small dense feed-forward after attention, and a mixture of experts over the layer's input beside
 * it. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    ROPE_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_gate), "blk.%d.ffn_gate.weight", {D_EMBD, D_EMBD}, 0},
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_EMBD, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_EMBD}, 0},
    NORM_ROW(ffn_norm_exps, "ffn_norm_exps"),
    MOE_TENSORS,
};

const qn_arch qn__arch_arctic = {
    DECODER("arctic", QN_ROPE_NORM),
    .block = {.moe = {.normalise = true, .begin = true}},
};
