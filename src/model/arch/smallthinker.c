/* SPDX-License-Identifier: MIT */
/* src/model/arch/smallthinker.c
 * SmallThinker (2025): the router reads the stream before attention, experts have ReLU; the first of four layers sees
 * all and does not rotate. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
    EXPERT_GATING,
    U32_OR("attention.sliding_window", n_window, 0, 0, 1 << 28),
    PATTERN_OR("attention.sliding_window_pattern", windowed, 4),
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
};

/* A window is 4096 positions whatever the file says, as its models were trained. */
static void settle(qn_hparams *hp)
{
    hp->sees_all_first = 1;
    if (hp->n_window) hp->n_window = 4096;
}

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)i;
    const bool all = !m->hp.n_window || m->hp.n_layer == 4; /* a model of four layers is one such group, and rotates */
    l->spec.attn.turn = l->hp.windowed || all ? QN_TURN_full : QN_TURN_none;
}

const qn_arch qn__arch_smallthinker = {
    DECODER("smallthinker", QN_ROPE_NEOX),
    .block = {.ffn = {.act = QN_ACT_relu}, .moe = {.score = QN_MOE_sigmoid, .normalise = true, .begin_router = true}},
    .settle = settle,
    .layer = layer,
};
