/* SPDX-License-Identifier: MIT */
/* src/model/arch/ernie4_5.c
 * ERNIE 4.5 (2025): Llama by another name. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

const qn_arch qn__arch_ernie4_5 = {
    DECODER("ernie4_5", QN_ROPE_NORM),
};
