/* SPDX-License-Identifier: MIT */
/* src/model/arch/refact.c
 * Refact (2023): Llama with ALiBi, and one key and value for all heads. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {DECODER_SIZES, RMS_EPS};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS, NORM_ROW(attn_norm, "attn_norm"), ATTN_TENSORS, NORM_ROW(ffn_norm, "ffn_norm"), FFN_TENSORS,
};

static void settle(qn_hparams *hp) { hp->attn_alibi = ALIBI; }

const qn_arch qn__arch_refact = {
    DECODER("refact", QN_ROPE_NORM),
    .block = {.attn = {.turn = QN_TURN_none}},
    .settle = settle,
};
