/* SPDX-License-Identifier: MIT */
/* src/model/arch/minimax_m2.c
 * MiniMax-M2 (2025): queries and keys normalised over all heads, part of a head rotated, sigmoid scores with a bias
 * that chooses. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
    EXPERT_GATING,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    ROW_NORM_ROWS,
    MOE_BIAS_ROW,
};

const qn_arch qn__arch_minimax_m2 = {
    DECODER("minimax-m2", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_row}, .moe = {.normalise = true, .score = QN_MOE_sigmoid}},
};
