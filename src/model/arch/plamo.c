/* SPDX-License-Identifier: MIT */
/* src/model/arch/plamo.c
 * PLaMo (2023): attention and feed-forward side by side after one norm. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    FFN_TENSORS,
};

const qn_arch qn__arch_plamo = {
    DECODER("plamo", QN_ROPE_NEOX),
    .block = {.parallel = true},
};
