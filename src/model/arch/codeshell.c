/* SPDX-License-Identifier: MIT */
/* src/model/arch/codeshell.c
 * CodeShell (2023): layer norms and biases everywhere, and a plain feed-forward of GELU. */
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
    SPLIT_QKV_TENSORS,
    DECODER_QKV_BIASES(0),
    ATTN_OUT_TENSORS(0),
    PLAIN_FFN_TENSORS,
};

const qn_arch qn__arch_codeshell = {
    DECODER("codeshell", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .ffn = {.plain = true, .act = QN_ACT_gelu_tanh}},
};
