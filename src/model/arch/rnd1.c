/* SPDX-License-Identifier: MIT */
/* src/model/arch/rnd1.c
 * RND1 (2025): Qwen3-MoE made a model of diffusion, so that tokens see each other both ways. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(1e6),
    EXPERT_FF,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    HEAD_NORM_ROWS,
};

const qn_arch qn__arch_rnd1 = {
    DECODER("rnd1", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head, .sight = {QN_SIGHT_both, 0}}, .moe = {.normalise = true}},
};
