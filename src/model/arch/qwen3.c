/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen3.c
 * Qwen3 (Yang et al. 2025): a Llama decoder with one twist, an RMSNorm on every query and key head before RoPE.
 * As a reranker it has the rows of "yes" and "no" of its output as a head, and scores are their shares. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {DECODER_HPARAMS(1e6)};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    HEAD_NORM_ROWS,
    DECODER_QKV_BIASES(W_MAY_LACK),
    CLS_OUT_TENSORS(W_MAY_LACK),
};

const qn_arch qn__arch_qwen3 = {
    DECODER("qwen3", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}},
    .head = {.of = QN_HEAD_last, .softmax = true},
};
