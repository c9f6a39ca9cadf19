/* SPDX-License-Identifier: MIT */
/* src/model/arch/llama4.c
 * Llama 4 (2025): three layers of four see a chunk of 8192 positions, rotate and normalise heads without weights; the
 * fourth sees all and heats queries by position. Experts are chosen by logits, and gates multiply what goes into them.
 */
#include "model/arch/experts.h"

enum { CHUNK = 8192, PERIOD = 4, WITHOUT_HEAD_NORM = 128 }; /* of the model of 128 experts */

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF, U32_OF("interleave_moe_layer_step", moe_step, 1, 1, 4096),
    U32_OR("attention.sliding_window", n_window, CHUNK, 0, 1 << 28), /* 0: none; else a chunk, whatever it says */
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    FFN_TENSORS,
    {LAYER(ffn_gate_shexp), "blk.%d.ffn_gate_shexp.weight", {D_FF_EXP, D_EMBD}, W_EXPERTS},
    {LAYER(ffn_up_shexp), "blk.%d.ffn_up_shexp.weight", {D_FF_EXP, D_EMBD}, W_EXPERTS},
    {LAYER(ffn_down_shexp), "blk.%d.ffn_down_shexp.weight", {D_EMBD, D_FF_EXP}, W_EXPERTS},
};

static void layer(const qn_model *m, qn_layer *l, int i)
{
    qn_attn_spec *attn = &l->spec.attn;
    const bool all = m->hp.n_window && i % PERIOD == PERIOD - 1;
    attn->turn = all ? QN_TURN_none : QN_TURN_full;
    attn->sight = m->hp.n_window && !all ? (qn_sight){QN_SIGHT_chunk, CHUNK} : (qn_sight){QN_SIGHT_all, 0};
    if (all) {
        attn->heat = 0.1f;
        attn->heat_offset = 1;
        attn->heat_floor = CHUNK;
    } else if (m->hp.n_expert != WITHOUT_HEAD_NORM) {
        attn->qk_norm = QN_QK_after_turn;
        attn->bare_norm = true;
    }
}

const qn_arch qn__arch_llama4 = {
    DECODER("llama4", QN_ROPE_NORM),
    .block = {.moe = {.score = QN_MOE_sigmoid, .by_logits = true, .weight_before = true}},
    .layer = layer,
};
