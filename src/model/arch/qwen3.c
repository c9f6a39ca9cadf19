/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen3.c
 * Qwen3 (Yang et al. 2025): a Llama decoder with one twist, an RMSNorm on every query and key head before RoPE. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {DECODER_HPARAMS(1e6)};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    HEAD_NORM_ROWS,
};

const qn_arch qn__arch_qwen3 = {
    DECODER("qwen3", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}},
};
