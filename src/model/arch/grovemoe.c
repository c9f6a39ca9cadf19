/* SPDX-License-Identifier: MIT */
/* src/model/arch/grovemoe.c
 * GroveMoE (Wu et al. 2025): Qwen3-MoE whose neighbouring experts share a small one. It takes what its neighbours take,
 * as the authors' code has it; the popular engine gives it what they made. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
    U32_OR("expert_chunk_feed_forward_length", n_ff_chexp, 0, 0, 1 << 22), /* 0: a head's size */
    U32_OF("experts_per_group", n_expert_chunk, 2, 1, 65536),
    F32("expert_group_scale", chunk_scale, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    HEAD_NORM_ROWS,
    {LAYER(ffn_gate_chexps), "blk.%d.ffn_gate_chexps.weight", {D_CHUNKS, D_FF_CHEXP, D_EMBD}, 0},
    {LAYER(ffn_up_chexps), "blk.%d.ffn_up_chexps.weight", {D_CHUNKS, D_FF_CHEXP, D_EMBD}, 0},
    {LAYER(ffn_down_chexps), "blk.%d.ffn_down_chexps.weight", {D_CHUNKS, D_EMBD, D_FF_CHEXP}, 0},
};

const qn_arch qn__arch_grovemoe = {
    DECODER("grovemoe", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}, .moe = {.normalise = true}},
};
