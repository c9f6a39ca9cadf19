/* SPDX-License-Identifier: MIT */
/* src/model/arch/maincoder.c
 * Maincoder (2025): Llama with norms of heads after they were rotated. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    HEAD_NORM_ROWS,
};

const qn_arch qn__arch_maincoder = {
    DECODER("maincoder", QN_ROPE_NORM),
    .block = {.attn = {.qk_norm = QN_QK_after_turn}},
};
