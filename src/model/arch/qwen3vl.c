/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen3vl.c
 * Qwen3-VL (2025), its text part: Qwen3 with positions of three numbers, whose pairs are interleaved. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(1000000.0),
    FOUR("rope.dimension_sections", rope_sections),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    HEAD_NORM_ROWS,
};

static void settle(qn_hparams *hp) { hp->rope.interleaved = 1; }

const qn_arch qn__arch_qwen3vl = {
    DECODER("qwen3vl", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}},
    .settle = settle,
};
