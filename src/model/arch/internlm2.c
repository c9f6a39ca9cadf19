/* SPDX-License-Identifier: MIT */
/* src/model/arch/internlm2.c
 * InternLM 2 (2024): Llama by another name. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

const qn_arch qn__arch_internlm2 = {
    DECODER("internlm2", QN_ROPE_NORM),
};
