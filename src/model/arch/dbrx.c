/* SPDX-License-Identifier: MIT */
/* src/model/arch/dbrx.c
 * DBRX (2024): layer norms, queries, keys and values in one matrix and clamped, a mixture of experts. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    DECODER_COMMON_SIZES,
    EXPERTS_HPARAMS,
    LAYER_EPS,
    DECODER_ROPE(10000.0),
    F32("attention.clamp_kqv", qkv_clamp, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    ATTN_OUT_TENSORS(W_MAY_LACK),
    NORM_ROW(ffn_norm, "attn_output_norm"),
    MOE_TENSORS,
};

const qn_arch qn__arch_dbrx = {
    DECODER("dbrx", QN_ROPE_NEOX),
    .block = {.norm = {QN_NORM_layer}, .moe = {.normalise = true}},
};
