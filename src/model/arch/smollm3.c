/* SPDX-License-Identifier: MIT */
/* src/model/arch/smollm3.c
 * SmolLM3 (2025): Llama, but every fourth layer does not rotate. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)m;
    if (i % 4 == 3) l->spec.attn.turn = QN_TURN_none;
}

const qn_arch qn__arch_smollm3 = {
    DECODER("smollm3", QN_ROPE_NORM),
    .layer = layer,
};
