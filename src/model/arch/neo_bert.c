/* SPDX-License-Identifier: MIT */
/* src/model/arch/neo_bert.c
 * NeoBERT (Le Breton et al. 2025): a Llama block whose tokens see both ways, queries, keys and values in one matrix,
 * gate and up in another. */
#include "model/arch/encoder.h"

static const qn_hparam_row hparams[] = {ENCODER_SIZES, RMS_EPS, DECODER_ROPE(10000.0)};

static const qn_tensor_row tensors[] = {
    {TOP(tok_embd), "token_embd.weight", {D_VOCAB, D_EMBD}, 0},
    {TOP(out_norm), "enc.output_norm.weight", {D_EMBD}, W_VECTOR | W_ONES},
    CLS_TENSORS(W_MAY_LACK),
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_qkv), "blk.%d.attn_qkv.weight", {D_QKV, D_EMBD}, 0},
    {LAYER(attn_out), "blk.%d.attn_output.weight", {D_EMBD, D_O}, 0},
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF2, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
};

const qn_arch qn__arch_neo_bert = {
    DECODER("neo-bert", QN_ROPE_NORM),
    .block = {.ffn = {.fused = true}},
};
