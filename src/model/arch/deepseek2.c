/* SPDX-License-Identifier: MIT */
/* src/model/arch/deepseek2.c
 * DeepSeek V2, V3, R1 and Kimi K2 (Liu et al. 2024): latent attention, mixtures after the first layers. Older files,
 * and those without the keys of _mla, have heads in the cache. */
#include "model/arch/deepseek2.h"

static const qn_hparam_row hparams[] = {DEEPSEEK2_HPARAMS};

static const qn_tensor_row tensors[] = {DEEPSEEK2_TENSORS};

const qn_arch qn__arch_deepseek2 = {
    DECODER("deepseek2", QN_ROPE_NORM),
    .settle = deepseek2_settle,
};
