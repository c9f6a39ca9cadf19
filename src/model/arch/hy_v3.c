/* SPDX-License-Identifier: MIT */
/* src/model/arch/hy_v3.c
 * Hunyuan 3 (2025): norms of heads, sigmoid scores with a bias that chooses, after leading layers without experts. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0), EXPERT_FF,    EXPERT_COUNT_SHARED, EXPERT_SHARED_FF_OR,
    EXPERT_LEADING_DENSE, EXPERT_GATES, NEXTN_LAYERS,
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS, HEAD_NORM_ROWS,
    FFN_TENSORS,         {LAYER(exp_probs_b), "blk.%d.exp_probs_b", {D_EXPERTS}, W_VECTOR | W_OPTIONAL | W_EXPERTS},
    SHEXP_TENSORS,
};

const qn_arch qn__arch_hy_v3 = {
    DECODER("hy_v3", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}, .moe = {.score = QN_MOE_sigmoid}},
};
