/* SPDX-License-Identifier: MIT */
/* src/model/arch/deci.c
 * DeciLM and Llama-Nemotron (2024): Llama whose layers have numbers of heads and feed-forward lengths of their own. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    DECODER_QKV_BIASES(W_MAY_LACK),
};

const qn_arch qn__arch_deci = {
    DECODER("deci", QN_ROPE_NORM),
};
