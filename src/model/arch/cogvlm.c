/* SPDX-License-Identifier: MIT */
/* src/model/arch/cogvlm.c
 * CogVLM (2023), its language model: Llama with queries, keys and values in one matrix. What serves pictures is left
 * alone. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    ATTN_OUT_TENSORS(W_MAY_LACK),
    NORM_ROW(ffn_norm, "ffn_norm"),
    FFN_TENSORS,
};

/* The authors' code knows one base, whatever the file says. */
static void settle(qn_hparams *hp) { hp->rope.base = 10000; }

const qn_arch qn__arch_cogvlm = {
    DECODER("cogvlm", QN_ROPE_NEOX),
    .settle = settle,
};
