/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen3vlmoe.c
 * Qwen3-VL-MoE (2025), its text part: Qwen3-MoE with positions of three numbers, whose pairs are interleaved. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(1000000.0),
    EXPERT_FF,
    FOUR("rope.dimension_sections", rope_sections),
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    HEAD_NORM_ROWS,
};

static void settle(qn_hparams *hp) { hp->rope.interleaved = 1; }

const qn_arch qn__arch_qwen3vlmoe = {
    DECODER("qwen3vlmoe", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}, .moe = {.normalise = true}},
    .settle = settle,
};
