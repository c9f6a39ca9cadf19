/* SPDX-License-Identifier: MIT */
/* src/model/arch/llada.c
 * LLaDA (2025): Llama for diffusion, so that tokens see each other both ways. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {DECODER_HPARAMS(10000.0)};

static const qn_tensor_row tensors[] = {DECODER_TENSORS};

const qn_arch qn__arch_llada = {DECODER("llada", QN_ROPE_NORM), .block = {.attn = {.sight = {QN_SIGHT_both, 0}}}};
