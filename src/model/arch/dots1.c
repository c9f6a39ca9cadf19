/* SPDX-License-Identifier: MIT */
/* src/model/arch/dots1.c
 * dots.llm1 (2025): norms of heads, sigmoid scores with a bias that chooses, after leading layers without experts. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF, EXPERT_SHARED(1), EXPERT_LEADING_DENSE, EXPERT_GATES,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS, HEAD_NORM_ROWS, FFN_TENSORS, MOE_BIAS_ROW, SHEXP_TENSORS,
};

const qn_arch qn__arch_dots1 = {
    DECODER("dots1", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}},
};
