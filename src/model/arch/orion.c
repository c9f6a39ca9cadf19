/* SPDX-License-Identifier: MIT */
/* src/model/arch/orion.c
 * Orion (2024): Llama with layer norms. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    LAYER_EPS,
    DECODER_ROPE(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(out_norm_bias), "output_norm.bias", {D_EMBD}, W_VECTOR},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_norm_bias), "blk.%d.attn_norm.bias", {D_EMBD}, W_VECTOR},
    ATTN_TENSORS,
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_norm_bias), "blk.%d.ffn_norm.bias", {D_EMBD}, W_VECTOR},
    FFN_TENSORS,
};

const qn_arch qn__arch_orion = {
    DECODER("orion", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}},
};
