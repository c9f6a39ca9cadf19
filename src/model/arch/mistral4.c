/* SPDX-License-Identifier: MIT */
/* src/model/arch/mistral4.c
 * Mistral Large 3 (2025): DeepSeek V3 whose queries grow with the position. */
#include "model/arch/deepseek2.h"

static const qn_hparam_row hparams[] = {DEEPSEEK2_HPARAMS};

static const qn_tensor_row tensors[] = {DEEPSEEK2_TENSORS};

const qn_arch qn__arch_mistral4 = {
    DECODER("mistral4", QN_ROPE_NORM),
    .settle = deepseek2_settle,
};
