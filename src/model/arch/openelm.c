/* SPDX-License-Identifier: MIT */
/* src/model/arch/openelm.c
 * OpenELM (2024): layers grow with depth; queries, keys and values in one matrix, and norms of heads. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,   NORM_ROW(attn_norm, "attn_norm"), {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    HEAD_NORM_ROWS, ATTN_OUT_TENSORS(W_MAY_LACK),     NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
};

const qn_arch qn__arch_openelm = {
    DECODER("openelm", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}},
};
