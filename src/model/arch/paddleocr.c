/* SPDX-License-Identifier: MIT */
/* src/model/arch/paddleocr.c
 * PaddleOCR-VL (2025), its language model: Llama whose positions are the same in all sections where there is text
 * alone. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

const qn_arch qn__arch_paddleocr = {
    DECODER("paddleocr", QN_ROPE_NEOX),
};
