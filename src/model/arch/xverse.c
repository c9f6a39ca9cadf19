/* SPDX-License-Identifier: MIT */
/* src/model/arch/xverse.c
 * XVERSE (2023): Llama by another name. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

const qn_arch qn__arch_xverse = {
    DECODER("xverse", QN_ROPE_NORM),
};
