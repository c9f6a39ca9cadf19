/* SPDX-License-Identifier: MIT */
/* src/model/arch/exaone_moe.c
 * K-EXAONE (2025): norms of heads, a window in three layers of four, which alone rotate; sigmoid scores with a bias
 * that chooses. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF,    EXPERT_SHARED(1),  EXPERT_SHARED_FF_OR,
    EXPERT_LEADING_DENSE, EXPERT_GATES, DECODER_WINDOW(4), NEXTN_LAYERS,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS, HEAD_NORM_ROWS, FFN_TENSORS, MOE_BIAS_ROW, SHEXP_TENSORS,
};

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)m, (void)i;
    l->spec.attn.turn = l->hp.windowed ? QN_TURN_full : QN_TURN_none;
}

const qn_arch qn__arch_exaone_moe = {
    DECODER("exaone-moe", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}},
    .layer = layer,
};
