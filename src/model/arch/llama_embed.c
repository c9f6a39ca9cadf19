/* SPDX-License-Identifier: MIT */
/* src/model/arch/llama_embed.c
 * Llama-Embed-Nemotron (2025): a Llama decoder, trained on so that its tokens see both ways. */
#include "model/arch/encoder.h"

static const qn_hparam_row hparams[] = {ENCODER_SIZES, RMS_EPS, DECODER_ROPE(10000.0)};

static const qn_tensor_row tensors[] = {
    HIDDEN_TENSORS, ROPE_TENSORS, NORM_ROW(attn_norm, "attn_norm"), ATTN_TENSORS, NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
};

const qn_arch qn__arch_llama_embed = {DECODER("llama-embed", QN_ROPE_NORM)};
