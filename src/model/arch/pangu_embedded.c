/* SPDX-License-Identifier: MIT */
/* src/model/arch/pangu_embedded.c
 * openPangu Embedded (2025): Llama with half-apart pairs and biases. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    DECODER_QKV_BIASES(W_OPTIONAL),
};

const qn_arch qn__arch_pangu_embedded = {
    DECODER("pangu-embedded", QN_ROPE_NEOX),
};
