/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen3moe.c
 * Qwen3-MoE (Yang et al. 2025): Qwen3 with a mixture of experts in every layer. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(1e6),
    EXPERT_FF,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    HEAD_NORM_ROWS,
};

const qn_arch qn__arch_qwen3moe = {
    DECODER("qwen3moe", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}, .moe = {.normalise = true}},
};
