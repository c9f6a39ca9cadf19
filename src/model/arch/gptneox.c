/* SPDX-License-Identifier: MIT */
/* src/model/arch/gptneox.c
 * GPT-NeoX and Pythia (2022): layer norms, a part of a head rotated, attention and feed-forward side by side with a
 * norm each where the file says so. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    LAYER_EPS,
    DECODER_ROPE(10000.0),
    BOOL_OR("use_parallel_residual", parallel, 1),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    {TOP(out_norm_bias), "output_norm.bias", {D_EMBD}, W_VECTOR},
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_norm_bias), "blk.%d.attn_norm.bias", {D_EMBD}, W_VECTOR},
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    {LAYER(attn_qkv_bias), "blk.%d.attn_qkv.bias", {D_QKV}, W_VECTOR},
    ATTN_OUT_TENSORS(0),
    PLAIN_FFN_TENSORS,
};

const qn_arch qn__arch_gptneox = {
    DECODER("gptneox", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .ffn = {.plain = true, .act = QN_ACT_gelu}},
};
