/* SPDX-License-Identifier: MIT */
/* src/model/arch/mellum.c
 * Mellum 2 (2025): norms of heads, a mixture of experts, a window in three layers of four, which rotate from a base of
 * their own. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
    U32_OR("attention.sliding_window", n_window, 0, 0, 1 << 28),
    PATTERN_OR("attention.sliding_window_pattern", windowed, 4),
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    HEAD_NORM_ROWS,
};

const qn_arch qn__arch_mellum = {
    DECODER("mellum", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}, .moe = {.normalise = true}},
};
