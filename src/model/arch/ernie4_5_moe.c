/* SPDX-License-Identifier: MIT */
/* src/model/arch/ernie4_5_moe.c
 * ERNIE 4.5 MoE (2025): a bias that chooses, every n-th layer a mixture after leading layers without. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF, EXPERT_SHARED_FF_OR, EXPERT_LEADING_DENSE, EXPERT_STEP, EXPERT_COUNT_SHARED,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    FFN_TENSORS,
    MOE_BIAS_ROW,
    SHEXP_TENSORS,
};

const qn_arch qn__arch_ernie4_5_moe = {
    DECODER("ernie4_5-moe", QN_ROPE_NORM),
    .block = {.moe = {.normalise = true}},
};
