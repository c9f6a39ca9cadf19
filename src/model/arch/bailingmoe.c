/* SPDX-License-Identifier: MIT */
/* src/model/arch/bailingmoe.c
 * Ling (2025): Llama with a mixture of experts, and some that all tokens use. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF, EXPERT_SHARED(1), EXPERT_LEADING_DENSE, EXPERT_GATES,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    FFN_TENSORS,
    SHEXP_TENSORS,
};

const qn_arch qn__arch_bailingmoe = {
    DECODER("bailingmoe", QN_ROPE_NORM),
};
