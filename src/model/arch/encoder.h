/* SPDX-License-Identifier: MIT */
/* src/model/arch/encoder.h -- rows that encoders of BERT's kind share: one place for what would otherwise stand in each
 * file. Their layers' norms come after the sums, under names of their own. */
#ifndef QN_MODEL_ARCH_ENCODER_H
#define QN_MODEL_ARCH_ENCODER_H

#include "model/arch/decoder.h"

/* clang-format off */
#define ENCODER_SIZES ENCODER_COMMON_SIZES, U32_OR("expert_count", n_expert, 0, 0, 65536)
#define ENCODER_COMMON_SIZES SIZES, \
    BOOL_OR("attention.causal",                causal, 0), \
    U32_OR("tokenizer.ggml.token_type_count",  n_token_type, 2, 1, 64), \
    EMBEDDING_KEYS
#define ENCODER_EMBD_TENSORS \
    {TOP(tok_embd),        "token_embd.weight",          {D_VOCAB, D_EMBD}, 0}, \
    {TOP(type_embd),       "token_types.weight",         {D_TYPES, D_EMBD}, W_VECTOR | W_OPTIONAL}, \
    {TOP(embd_norm),       "token_embd_norm.weight",     {D_EMBD},          W_VECTOR | W_ONES}, \
    {TOP(embd_norm_bias),  "token_embd_norm.bias",       {D_EMBD},          W_VECTOR}
#define HIDDEN_TENSORS \
    {TOP(tok_embd),        "token_embd.weight",          {D_VOCAB, D_EMBD}, 0}, \
    {TOP(out_norm),        "output_norm.weight",         {D_EMBD},          W_VECTOR | W_ONES}
#define SUM_NORM_TENSORS \
    NORM_ROW(attn_post_norm, "attn_output_norm"), \
    {LAYER(attn_post_norm_bias), "blk.%d.attn_output_norm.bias", {D_EMBD},  W_VECTOR}, \
    NORM_ROW(ffn_post_norm,  "layer_output_norm"), \
    {LAYER(ffn_post_norm_bias), "blk.%d.layer_output_norm.bias", {D_EMBD},  W_VECTOR}
/* With flags of the biases. */
#define ENCODER_ATTN_TENSORS(flags) \
    SPLIT_QKV_TENSORS, \
    {LAYER(attn_qkv),      "blk.%d.attn_qkv.weight",     {D_QKV, D_EMBD},   W_MAY_LACK}, \
    {LAYER(attn_qkv_bias), "blk.%d.attn_qkv.bias",       {D_QKV},           W_VECTOR | W_MAY_LACK}, \
    DECODER_QKV_BIASES(flags), \
    ATTN_OUT_TENSORS(flags)
#define ENCODER_FFN_TENSORS(flags) \
    {LAYER(ffn_up),        "blk.%d.ffn_up.weight",       {D_FF, D_EMBD},    W_DENSE}, \
    {LAYER(ffn_up_bias),   "blk.%d.ffn_up.bias",         {D_FF},            W_VECTOR | W_DENSE | (flags)}, \
    {LAYER(ffn_down),      "blk.%d.ffn_down.weight",     {D_EMBD, D_FF},    W_DENSE}, \
    {LAYER(ffn_down_bias), "blk.%d.ffn_down.bias",       {D_EMBD},          W_VECTOR | W_DENSE | (flags)}
/* clang-format on */

#endif
