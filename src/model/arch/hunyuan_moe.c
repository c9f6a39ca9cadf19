/* SPDX-License-Identifier: MIT */
/* src/model/arch/hunyuan_moe.c
 * Hunyuan-A13B (2025): norms of heads after they were rotated, a mixture of experts and one that all tokens use. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
    EXPERT_SHARED_FF(48),
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    HEAD_NORM_ROWS,
    SHEXP_TENSORS,
};

const qn_arch qn__arch_hunyuan_moe = {
    DECODER("hunyuan-moe", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_after_turn}, .moe = {.normalise = true}},
};
