/* SPDX-License-Identifier: MIT */
/* src/model/arch/deepseek.c
 * DeepSeek-MoE (Dai et al. 2024): many small experts and some that all tokens use, after leading layers without. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF, EXPERT_SHARED(1), EXPERT_LEADING_DENSE, EXPERT_SCALE,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    FFN_TENSORS,
    SHEXP_TENSORS,
};

const qn_arch qn__arch_deepseek = {
    DECODER("deepseek", QN_ROPE_NORM),
};
