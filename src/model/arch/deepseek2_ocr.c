/* SPDX-License-Identifier: MIT */
/* src/model/arch/deepseek2_ocr.c
 * DeepSeek-OCR (Wei et al. 2025), its decoder: DeepSeek 2's mixtures with the attention of Llama. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF, EXPERT_SHARED(1), EXPERT_LEADING_DENSE, EXPERT_GATES,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    FFN_TENSORS,
    MOE_BIAS_ROW,
    SHEXP_TENSORS,
};

const qn_arch qn__arch_deepseek2_ocr = {
    DECODER("deepseek2-ocr", QN_ROPE_NEOX),
};
