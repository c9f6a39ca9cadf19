/* SPDX-License-Identifier: MIT */
/* src/model/arch/dream.c
 * Dream (2025): Qwen2 for diffusion, so that tokens see each other both ways. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {DECODER_HPARAMS(10000.0)};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    DECODER_QKV_BIASES(0),
};

const qn_arch qn__arch_dream = {DECODER("dream", QN_ROPE_NEOX), .block = {.attn = {.sight = {QN_SIGHT_both, 0}}}};
