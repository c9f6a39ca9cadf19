/* SPDX-License-Identifier: MIT */
/* src/model/arch/mimo2.c
 * MiMo-V2 (2025): sinks and a window in the layers that a list names, part of a head rotated, values scaled; sigmoid
 * scores with a bias that chooses. Which layers are dense only the file's routers tell. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF,         EXPERT_LEADING_DENSE,
    EXPERT_GATES,         DECODER_WINDOW(1), F32_OR("attention.value_scale", value_scale, 0, 0, 1e3),
    NEXTN_LAYERS,
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, W_MAY_LACK},
    SPLIT_QKV_TENSORS,
    ATTN_OUT_TENSORS(W_MAY_LACK),
    {LAYER(attn_sinks), "blk.%d.attn_sinks.weight", {D_HEADS}, W_VECTOR | W_OPTIONAL},
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
    MOE_TENSORS,
    MOE_BIAS_ROW,
};

const qn_arch qn__arch_mimo2 = {
    DECODER("mimo2", QN_ROPE_NEOX),
    .block = {.moe = {.normalise = true, .score = QN_MOE_sigmoid}},
    .dense_without_router = true,
};
