/* SPDX-License-Identifier: MIT */
/* src/model/arch/step35.c
 * Step 3.5 (2025): attention gated head by head, the first of four layers sees all and rotates half, the others a
 * window; experts whose activations are limited, by layer. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
    EXPERT_COUNT_SHARED,
    EXPERT_SHARED_FF_OR,
    EXPERT_LEADING_DENSE,
    EXPERT_GATES,
    DECODER_WINDOW(4),
    U32_OR("rope.dimension_count_swa", n_rot_window, 0, 2, 65536),
    LF32_OR("swiglu_clamp_exp", expert_limit, 0, 0, 1e6),
    LF32_OR("swiglu_clamp_shexp", shared_limit, 0, 0, 1e6),
    NEXTN_LAYERS,
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    ROPE_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    {LAYER(attn_q_norm), "blk.%d.attn_q_norm.weight", {D_HEAD}, W_VECTOR | W_ONES | W_OPTIONAL},
    {LAYER(attn_k_norm), "blk.%d.attn_k_norm.weight", {D_HEAD}, W_VECTOR | W_ONES | W_OPTIONAL},
    {LAYER(attn_gate), "blk.%d.attn_gate.weight", {D_HEADS, D_EMBD}, W_OPTIONAL},
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
    MOE_TENSORS,
    MOE_BIAS_ROW,
    SHEXP_TENSORS,
};

/* The file's number is that of a whole head. */
static void settle(qn_hparams *hp)
{
    hp->sees_all_first = 1;
    if (!hp->n_rot_window) hp->rope_window.n_rot = (int32_t)hp->n_rot;
    hp->n_rot /= 2;
    hp->bare_window = 1; /* factors are for the pairs of the others */
    hp->rope.n_rot = (int32_t)hp->n_rot;
}

const qn_arch qn__arch_step35 = {
    DECODER("step35", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}, .moe = {.score = QN_MOE_sigmoid}},
    .settle = settle,
};
