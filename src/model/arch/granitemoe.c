/* SPDX-License-Identifier: MIT */
/* src/model/arch/granitemoe.c
 * Granite 3 MoE (2024): Granite with a mixture of experts, and shared ones where the file has them. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    DECODER_FACTORS,
    EXPERT_SHARED_FF_OR,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    SHEXP_TENSORS,
};

/* The file's number divides. */
static void settle(qn_hparams *hp)
{
    if (hp->logit_scale != 0) hp->logit_scale = 1 / hp->logit_scale;
}

const qn_arch qn__arch_granitemoe = {
    DECODER("granitemoe", QN_ROPE_NORM),
    .block = {.moe = {.normalise = true}},
    .settle = settle,
};
