/* SPDX-License-Identifier: MIT */
/* src/model/arch/eurobert.c
 * EuroBERT (Boizard et al. 2025): a Llama decoder whose tokens see both ways. */
#include "model/arch/encoder.h"

static const qn_hparam_row hparams[] = {ENCODER_SIZES, RMS_EPS, DECODER_ROPE(250000.0)};

static const qn_tensor_row tensors[] = {
    HIDDEN_TENSORS, NORM_ROW(attn_norm, "attn_norm"), ATTN_TENSORS, NORM_ROW(ffn_norm, "ffn_norm"), FFN_TENSORS,
};

const qn_arch qn__arch_eurobert = {DECODER("eurobert", QN_ROPE_NEOX)};
