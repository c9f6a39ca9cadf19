/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen2.c
 * Qwen2 and Qwen2.5 (Yang et al. 2024): a Llama decoder with biases on queries, keys and values, and RoPE over
 * half-apart pairs. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {DECODER_HPARAMS(1e6)};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    DECODER_QKV_BIASES(0),
};

const qn_arch qn__arch_qwen2 = {
    DECODER("qwen2", QN_ROPE_NEOX),
};
