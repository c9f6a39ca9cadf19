/* SPDX-License-Identifier: MIT */
/* src/model/arch/cohere2moe.c
 * Command A MoE (2025): attention and feed-forward side by side, a window in three layers of four, which rotate, as
 * the leading layers do; half of the sum of experts and shared experts. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
    EXPERT_COUNT_SHARED,
    EXPERT_SHARED_FF_OR,
    U32_OF("leading_dense_block_count", n_layer_dense, 1, 0, 4096),
    EXPERT_GATES,
    U32_OR("attention.sliding_window", n_window, 0, 0, 1 << 28),
    PATTERN_OR("attention.sliding_window_pattern", windowed, 4),
    F32("logit_scale", logit_scale, 0, 1e6),
    NEXTN_LAYERS,
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS, NORM_ROW(attn_norm, "attn_norm"), ATTN_TENSORS, FFN_TENSORS, MOE_TENSORS, SHEXP_TENSORS,
};

static void settle(qn_hparams *hp) { hp->sees_all_first = 1; }

static void layer(const qn_model *m, qn_layer *l, int i)
{
    l->spec.attn.turn = l->hp.windowed || i < (int)m->hp.n_layer_dense ? QN_TURN_full : QN_TURN_none;
    if (l->ffn_up_shexp) l->spec.moe.sum_scale = 0.5f;
}

const qn_arch qn__arch_cohere2moe = {
    DECODER("cohere2moe", QN_ROPE_NORM),
    .block = {.parallel = true, .moe = {.score = QN_MOE_sigmoid}},
    .settle = settle,
    .layer = layer,
};
