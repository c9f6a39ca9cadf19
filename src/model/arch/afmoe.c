/* SPDX-License-Identifier: MIT */
/* src/model/arch/afmoe.c
 * AFMoE, Trinity (2025): attention gated element by element, norms before and after, a window in three layers of four,
 * which alone rotate; sigmoid scores with a bias that chooses. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
    EXPERT_COUNT_SHARED,
    EXPERT_LEADING_DENSE,
    EXPERT_GATES,
    U32_OR("attention.sliding_window", n_window, 0, 0, 1 << 28),
    PATTERN_OR("attention.sliding_window_pattern", windowed, 4),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    HEAD_NORM_ROWS,
    {LAYER(attn_gate), "blk.%d.attn_gate.weight", {D_O, D_EMBD}, 0},
    NORM_ROW(attn_post_norm, "post_attention_norm"),
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
    MOE_TENSORS,
    MOE_BIAS_ROW,
    SHEXP_TENSORS,
    NORM_ROW(ffn_post_norm, "post_ffw_norm"),
};

static void settle(qn_hparams *hp) { hp->embd_scale = sqrtf((float)hp->n_embd); }

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)m;
    l->spec.attn.turn = (i + 1) % 4 ? QN_TURN_full : QN_TURN_none;
}

const qn_arch qn__arch_afmoe = {
    DECODER("afmoe", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_both, .attn = {.qk_norm = QN_QK_head}, .moe = {.score = QN_MOE_sigmoid}},
    .settle = settle,
    .layer = layer,
};
