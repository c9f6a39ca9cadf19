/* SPDX-License-Identifier: MIT */
/* src/model/arch/mistral3.c
 * Ministral 3 (2025): Llama whose queries grow with the logarithm of the position beyond the context of training. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    F32_OR("attention.temperature_scale", attn_heat, 0, 0, 1e3),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

const qn_arch qn__arch_mistral3 = {
    DECODER("mistral3", QN_ROPE_NORM),
};
