/* SPDX-License-Identifier: MIT */
/* src/model/arch/decoder.h -- rows that every Llama-like decoder shares: one place for what would otherwise stand in
 * each file. */
#ifndef QN_MODEL_ARCH_DECODER_H
#define QN_MODEL_ARCH_DECODER_H

#include "model/build.h"

/* Ranges are far beyond any model and keep every product of two of them inside int64. */
/* clang-format off */
#define DECODER_HPARAMS(default_rope_base) \
    U32("context_length",                      n_ctx_train, 1, 1 << 28), \
    U32("embedding_length",                    n_embd, 1, 1 << 20), \
    U32("block_count",                         n_layer, 1, 4096), \
    U32("attention.head_count",                n_head, 1, 65536), \
    U32_OR("attention.head_count_kv",          n_kv_head, 0, 1, 65536),       /* 0: n_head */ \
    U32_OR("attention.key_length",             n_embd_head_k, 0, 1, 65536),   /* 0: n_embd / n_head */ \
    U32_OR("attention.value_length",           n_embd_head_v, 0, 1, 65536), \
    U32("feed_forward_length",                 n_ff, 1, 1 << 22), \
    U32_OR("expert_count",                     n_expert, 0, 0, 65536), \
    F32("attention.layer_norm_rms_epsilon",    norm_eps, 0, 1), \
    U32_OR("rope.dimension_count",             n_rot, 0, 2, 65536),           /* 0: the whole head */ \
    F32_OR("rope.freq_base",                   rope_base, default_rope_base, 1, 1e12), \
    F32_OR("rope.scaling.factor",              rope_factor, 0, 0, 1e6), \
    F32_OR("rope.scaling.attn_factor",         rope_attn_factor, 1, 0, 1e3), \
    U32_OR("rope.scaling.original_context_length", rope_ctx_orig, 0, 1, 1 << 28)
#define DECODER_TENSORS \
    {TOP(tok_embd),        "token_embd.weight",          {D_VOCAB, D_EMBD}, 0}, \
    {TOP(out_norm),        "output_norm.weight",         {D_EMBD},          W_VECTOR | W_ONES}, \
    {TOP(out),             "output.weight",              {D_VOCAB, D_EMBD}, W_TIED}, \
    {TOP(rope_freqs),      "rope_freqs.weight",          {D_ROT2},          W_VECTOR | W_ONES | W_MAY_LACK}, \
    {LAYER(attn_norm),     "blk.%d.attn_norm.weight",    {D_EMBD},          W_VECTOR | W_ONES}, \
    {LAYER(attn_q),        "blk.%d.attn_q.weight",       {D_Q, D_EMBD},     0}, \
    {LAYER(attn_k),        "blk.%d.attn_k.weight",       {D_K, D_EMBD},     0}, \
    {LAYER(attn_v),        "blk.%d.attn_v.weight",       {D_V, D_EMBD},     0}, \
    {LAYER(attn_out),      "blk.%d.attn_output.weight",  {D_EMBD, D_O},     0}, \
    {LAYER(attn_out_bias), "blk.%d.attn_output.bias",    {D_EMBD},          W_VECTOR | W_MAY_LACK}, \
    {LAYER(ffn_norm),      "blk.%d.ffn_norm.weight",     {D_EMBD},          W_VECTOR | W_ONES}, \
    {LAYER(ffn_gate),      "blk.%d.ffn_gate.weight",     {D_FF, D_EMBD},    0}, \
    {LAYER(ffn_up),        "blk.%d.ffn_up.weight",       {D_FF, D_EMBD},    0}, \
    {LAYER(ffn_down),      "blk.%d.ffn_down.weight",     {D_EMBD, D_FF},    0}, \
    {LAYER(ffn_gate_bias), "blk.%d.ffn_gate.bias",       {D_FF},            W_VECTOR | W_MAY_LACK}, \
    {LAYER(ffn_up_bias),   "blk.%d.ffn_up.bias",         {D_FF},            W_VECTOR | W_MAY_LACK}, \
    {LAYER(ffn_down_bias), "blk.%d.ffn_down.bias",       {D_EMBD},          W_VECTOR | W_MAY_LACK}
#define DECODER_QKV_BIASES(flags) \
    {LAYER(attn_q_bias),   "blk.%d.attn_q.bias",         {D_Q},             W_VECTOR | (flags)}, \
    {LAYER(attn_k_bias),   "blk.%d.attn_k.bias",         {D_K},             W_VECTOR | (flags)}, \
    {LAYER(attn_v_bias),   "blk.%d.attn_v.bias",         {D_V},             W_VECTOR | (flags)}
/* clang-format on */

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

#endif
