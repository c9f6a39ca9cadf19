/* SPDX-License-Identifier: MIT */
/* src/model/arch/olmo.c
 * OLMo (2024): layer norms without weights; queries, keys and values are clamped where the file says so. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    LAYER_EPS,
    DECODER_ROPE(10000.0),
    F32_OR("attention.clamp_kqv", qkv_clamp, 0, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    {TOP(tok_embd), "token_embd.weight", {D_VOCAB, D_EMBD}, 0},
    {TOP(out), "output.weight", {D_VOCAB, D_EMBD}, W_TIED},
    ATTN_TENSORS,
    FFN_TENSORS,
};

const qn_arch qn__arch_olmo = {
    DECODER("olmo", QN_ROPE_NORM),
    .block = {.norm = {QN_NORM_layer}},
};
