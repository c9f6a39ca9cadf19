/* SPDX-License-Identifier: MIT */
/* src/model/arch/exaone.c
 * EXAONE 3 (2024): Llama with half-apart pairs. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

const qn_arch qn__arch_exaone = {
    DECODER("exaone", QN_ROPE_NEOX),
};
