/* SPDX-License-Identifier: MIT */
/* src/model/arch/baichuan.c
 * Baichuan (2023): Llama. The one of 40 layers has ALiBi instead of rotation. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
};

static void settle(qn_hparams *hp)
{
    if (hp->n_layer == 40) hp->attn_alibi = ALIBI;
}

/* It is the one of 32 that rotates. */
static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)i;
    if (m->hp.n_layer != 32) l->spec.attn.turn = QN_TURN_none;
}

const qn_arch qn__arch_baichuan = {
    DECODER("baichuan", QN_ROPE_NORM),
    .settle = settle,
    .layer = layer,
};
