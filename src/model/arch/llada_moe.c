/* SPDX-License-Identifier: MIT */
/* src/model/arch/llada_moe.c
 * LLaDA-MoE (Zhu et al. 2025): a mixture for diffusion, so that tokens see each other both ways; queries and keys
 * normalised by head, gates as they are. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    HEAD_NORM_ROWS,
};

const qn_arch qn__arch_llada_moe = {
    DECODER("llada-moe", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head, .sight = {QN_SIGHT_both, 0}}},
};
