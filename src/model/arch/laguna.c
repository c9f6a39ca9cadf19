/* SPDX-License-Identifier: MIT */
/* src/model/arch/laguna.c
 * Laguna (2025): attention gated head by head, the first of four layers sees all, the others a window, and rotate
 * another part of a head from another base. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF,
    EXPERT_COUNT_SHARED,  EXPERT_SHARED_FF_OR,
    EXPERT_LEADING_DENSE, EXPERT_GATES,
    DECODER_WINDOW(4),    U32_OR("rope.dimension_count_swa", n_rot_window, 0, 2, 65536),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    ROPE_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    HEAD_NORM_ROWS,
    {LAYER(attn_gate), "blk.%d.attn_gate.weight", {D_HEADS, D_EMBD}, 0},
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
    MOE_TENSORS,
    MOE_BIAS_ROW,
    SHEXP_TENSORS,
};

static void settle(qn_hparams *hp) { hp->sees_all_first = 1; }

const qn_arch qn__arch_laguna = {
    DECODER("laguna", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head, .gate = QN_GATE_softplus}, .moe = {.score = QN_MOE_sigmoid}},
    .settle = settle,
};
