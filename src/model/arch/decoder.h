/* SPDX-License-Identifier: MIT */
/* src/model/arch/decoder.h -- rows that every Llama-like decoder shares: one place for what would otherwise stand in
 * each file. */
#ifndef QN_MODEL_ARCH_DECODER_H
#define QN_MODEL_ARCH_DECODER_H

#include "model/arch.h"
#include <math.h>

/* Ranges are far beyond any model and keep every product of two of them inside int64. */
/* clang-format off */
#define DECODER_SIZES DECODER_COMMON_SIZES, U32_OR("expert_count", n_expert, 0, 0, 65536)
#define DECODER_COMMON_SIZES SIZES, \
    BOOL_OR("attention.causal",                causal, 1), \
    EMBEDDING_KEYS
#define SIZES \
    U32("context_length",                      n_ctx_train, 1, 1 << 28), \
    U32("embedding_length",                    n_embd, 1, 1 << 20), \
    U32("block_count",                         n_layer, 1, 4096), \
    LU32("attention.head_count",               n_head, 1, 65536), \
    LU32_OR("attention.head_count_kv",         n_kv_head, 0, 1, 65536),       /* 0: n_head */ \
    U32_OR("attention.key_length",             n_embd_head_k, 0, 1, 65536),   /* 0: n_embd / n_head */ \
    U32_OR("attention.value_length",           n_embd_head_v, 0, 1, 65536), \
    LU32("feed_forward_length",                n_ff, 1, 1 << 22)
#define EMBEDDING_KEYS \
    U32_OR("pooling_type",                     pooling, QN_POOLING_UNSET_IN_FILE, 0, 4), \
    COUNT_OR("classifier.output_labels",       n_label, 1, 1, 64)
/* ALiBi: the exponent of the last head's slope; all that are known have this one. */
#define ALIBI     8
#define ALIBI_KEY F32_OR("attention.max_alibi_bias", attn_alibi, ALIBI, 0, 1e3)
#define RMS_EPS   F32("attention.layer_norm_rms_epsilon", norm_eps, 0, 1)
#define LAYER_EPS F32("attention.layer_norm_epsilon",     norm_eps, 0, 1)
#define DECODER_ROPE(default_base) DECODER_ROPE_NUMBERS(default_base), \
    WORD_OR("rope.scaling.type",               rope_scaling, QN_ROPE_SCALING_WORDS)
#define DECODER_ROPE_NUMBERS(default_base) \
    U32_OR("rope.dimension_count",             n_rot, 0, 2, 65536),           /* 0: the whole head */ \
    DECODER_ROPE_BASE(default_base)
#define DECODER_ROPE_BASE(default_base) \
    F32_OR("rope.freq_base",                   rope_base, default_base, 1, 1e12), \
    F32_OR("rope.scaling.factor",              rope_factor, 0, 0, 1e6), \
    F32_OR("rope.scaling.attn_factor",         rope_attn_factor, 1, 0, 1e3), \
    F32_OR("rope.scaling.yarn_beta_fast",      rope_beta_fast, 0, 0, 1e6), \
    F32_OR("rope.scaling.yarn_beta_slow",      rope_beta_slow, 0, 0, 1e6), \
    F32_OR("rope.scaling.yarn_log_multiplier", rope_log_factor, 0, 0, 1e3), \
    U32_OR("rope.scaling.original_context_length", rope_ctx_orig, 0, 1, 1 << 28)
#define DECODER_HPARAMS(default_rope_base) DECODER_SIZES, RMS_EPS, DECODER_ROPE(default_rope_base)
/* A window, and of how many layers the last sees all. */
#define DECODER_WINDOW(period) DECODER_WINDOW_BASE(period, 0) /* the base of all layers */
#define DECODER_WINDOW_BASE(period, default_base) \
    U32_OR("attention.sliding_window",         n_window, 0, 0, 1 << 28), \
    PATTERN_OR("attention.sliding_window_pattern", windowed, period), \
    F32_OR("rope.freq_base_swa",               rope_base_window, default_base, 1, 1e12)
#define DECODER_FACTORS \
    F32_OR("embedding_scale",                  embd_scale, 0, 0, 1e6), \
    F32_OR("residual_scale",                   residual_scale, 0, 0, 1e6), \
    F32_OR("logit_scale",                      logit_scale, 0, 0, 1e6), \
    F32_OR("attention.scale",                  attn_scale, 0, 0, 1e6)
#define EMBD_TENSORS \
    {TOP(tok_embd),        "token_embd.weight",          {D_VOCAB, D_EMBD}, 0}, \
    {TOP(out_norm),        "output_norm.weight",         {D_EMBD},          W_VECTOR | W_ONES}, \
    {TOP(out),             "output.weight",              {D_VOCAB, D_EMBD}, W_TIED}
#define ROPE_TENSORS \
    {TOP(rope_freqs),      "rope_freqs.weight",          {D_ROT2},          W_VECTOR | W_ONES | W_MAY_LACK}
#define ATTN_TENSORS \
    {LAYER(attn_q),        "blk.%d.attn_q.weight",       {D_Q, D_EMBD},     0}, \
    {LAYER(attn_k),        "blk.%d.attn_k.weight",       {D_K, D_EMBD},     0}, \
    {LAYER(attn_v),        "blk.%d.attn_v.weight",       {D_V, D_EMBD},     0}, \
    ATTN_OUT_TENSORS(W_MAY_LACK)
/* Where a file may have attn_qkv instead. */
#define SPLIT_QKV_TENSORS \
    {LAYER(attn_q),        "blk.%d.attn_q.weight",       {D_Q, D_EMBD},     W_OPTIONAL}, \
    {LAYER(attn_k),        "blk.%d.attn_k.weight",       {D_K, D_EMBD},     W_OPTIONAL}, \
    {LAYER(attn_v),        "blk.%d.attn_v.weight",       {D_V, D_EMBD},     W_OPTIONAL}
#define ATTN_OUT_TENSORS(flags) \
    {LAYER(attn_out),      "blk.%d.attn_output.weight",  {D_EMBD, D_O},     0}, \
    {LAYER(attn_out_bias), "blk.%d.attn_output.bias",    {D_EMBD},          W_VECTOR | (flags)}
#define FFN_TENSORS \
    {LAYER(ffn_gate),      "blk.%d.ffn_gate.weight",     {D_FF, D_EMBD},    W_DENSE}, \
    {LAYER(ffn_up),        "blk.%d.ffn_up.weight",       {D_FF, D_EMBD},    W_DENSE}, \
    {LAYER(ffn_down),      "blk.%d.ffn_down.weight",     {D_EMBD, D_FF},    W_DENSE}, \
    {LAYER(ffn_gate_bias), "blk.%d.ffn_gate.bias",       {D_FF},            W_VECTOR | W_MAY_LACK | W_DENSE}, \
    {LAYER(ffn_up_bias),   "blk.%d.ffn_up.bias",         {D_FF},            W_VECTOR | W_MAY_LACK | W_DENSE}, \
    {LAYER(ffn_down_bias), "blk.%d.ffn_down.bias",       {D_EMBD},          W_VECTOR | W_MAY_LACK | W_DENSE}
#define DECODER_TENSORS \
    EMBD_TENSORS, \
    ROPE_TENSORS, \
    NORM_ROW(attn_norm, "attn_norm"), \
    ATTN_TENSORS, \
    NORM_ROW(ffn_norm, "ffn_norm"), \
    FFN_TENSORS
/* A feed-forward without a gate, and the norm before it, all with biases. */
#define PLAIN_FFN_TENSORS \
    NORM_ROW(ffn_norm, "ffn_norm"), \
    {LAYER(ffn_norm_bias), "blk.%d.ffn_norm.bias",       {D_EMBD},          W_VECTOR}, \
    {LAYER(ffn_up),        "blk.%d.ffn_up.weight",       {D_FF, D_EMBD},    0}, \
    {LAYER(ffn_up_bias),   "blk.%d.ffn_up.bias",         {D_FF},            W_VECTOR}, \
    {LAYER(ffn_down),      "blk.%d.ffn_down.weight",     {D_EMBD, D_FF},    0}, \
    {LAYER(ffn_down_bias), "blk.%d.ffn_down.bias",       {D_EMBD},          W_VECTOR}
/* Latent attention. */
#define LATENT_HPARAMS(default_rope_base) \
    DECODER_COMMON_SIZES, RMS_EPS, DECODER_ROPE_BASE(default_rope_base), \
    WORD_OR("rope.scaling.type",               rope_scaling, QN_ROPE_SCALING_WORDS), \
    U32_OF("rope.dimension_count",             n_rot, 4, 2, 65536), \
    U32_OF("attention.kv_lora_rank",           n_lora_kv, 24, 1, 65536)
#define LATENT_TENSORS \
    {LAYER(attn_q),        "blk.%d.attn_q.weight",       {D_Q_WHOLE, D_EMBD}, W_SIZED}, \
    {LAYER(attn_q_a),      "blk.%d.attn_q_a.weight",     {D_LORA_Q, D_EMBD}, W_SIZED}, \
    {LAYER(attn_q_a_norm), "blk.%d.attn_q_a_norm.weight", {D_LORA_Q},       W_VECTOR | W_ONES | W_SIZED}, \
    {LAYER(attn_q_b),      "blk.%d.attn_q_b.weight",     {D_Q_B, D_LORA_Q}, W_SIZED}, \
    {LAYER(attn_kv_a),     "blk.%d.attn_kv_a_mqa.weight", {D_KV_A, D_EMBD}, 0}, \
    {LAYER(attn_kv_a_norm), "blk.%d.attn_kv_a_norm.weight", {D_LORA_KV},    W_VECTOR | W_ONES}, \
    {LAYER(attn_kv_b),     "blk.%d.attn_kv_b.weight",    {D_KV_B, D_LORA_KV}, W_SIZED}, \
    {LAYER(attn_k_b),      "blk.%d.attn_k_b.weight",     {D_HEADS_B, D_LORA_KV, D_NOPE}, W_SIZED}, \
    {LAYER(attn_v_b),      "blk.%d.attn_v_b.weight",     {D_HEADS_B, D_VALUE, D_LORA_KV}, W_SIZED}, \
    {LAYER(attn_out),      "blk.%d.attn_output.weight",  {D_EMBD, D_VALUES}, 0}
/* A norm of a layer's stream, of a head, of all heads. */
#define NORM_ROW(slot, name) {LAYER(slot), "blk.%d." name ".weight", {D_EMBD}, W_VECTOR | W_ONES}
#define HEAD_NORM_ROWS \
    {LAYER(attn_q_norm),   "blk.%d.attn_q_norm.weight",  {D_HEAD},          W_VECTOR | W_ONES}, \
    {LAYER(attn_k_norm),   "blk.%d.attn_k_norm.weight",  {D_HEAD},          W_VECTOR | W_ONES}
#define ROW_NORM_ROWS \
    {LAYER(attn_q_norm),   "blk.%d.attn_q_norm.weight",  {D_Q},             W_VECTOR | W_ONES}, \
    {LAYER(attn_k_norm),   "blk.%d.attn_k_norm.weight",  {D_K},             W_VECTOR | W_ONES}
#define DECODER_QKV_BIASES(flags) \
    {LAYER(attn_q_bias),   "blk.%d.attn_q.bias",         {D_Q},             W_VECTOR | (flags)}, \
    {LAYER(attn_k_bias),   "blk.%d.attn_k.bias",         {D_K},             W_VECTOR | (flags)}, \
    {LAYER(attn_v_bias),   "blk.%d.attn_v.bias",         {D_V},             W_VECTOR | (flags)}
/* An embedding for each layer. Tables come first: the product is placed where the stream begins. */
#define LAYER_EMBD_TENSORS \
    {TOP(layer_embd),      "per_layer_token_embd.weight", {D_VOCAB, D_LEMBDS}, W_WHERE(D_LEMBD)}, \
    {TOP(layer_proj),      "per_layer_model_proj.weight", {D_LEMBDS, D_EMBD},  W_WHERE(D_LEMBD)}, \
    {TOP(layer_proj_norm), "per_layer_proj_norm.weight",  {D_LEMBD},           W_VECTOR | W_ONES | W_WHERE(D_LEMBD)}, \
    {LAYER(embd_gate),     "blk.%d.inp_gate.weight",     {D_LEMBD, D_EMBD}, W_WHERE(D_LEMBD)}, \
    {LAYER(embd_proj),     "blk.%d.proj.weight",         {D_EMBD, D_LEMBD}, W_WHERE(D_LEMBD)}, \
    {LAYER(embd_post_norm), "blk.%d.post_norm.weight",   {D_EMBD}, W_VECTOR | W_ONES | W_WHERE(D_LEMBD)}
#define SINK_ROW {LAYER(attn_sinks), "blk.%d.attn_sinks.weight", {D_HEADS}, W_VECTOR}
/* What scores texts. */
#define CLS_TENSORS(flags) \
    {TOP(cls),             "cls.weight",                 {D_EMBD, D_EMBD},  flags}, \
    {TOP(cls_bias),        "cls.bias",                   {D_EMBD},          W_VECTOR | (flags)}, \
    CLS_OUT_TENSORS(flags)
#define CLS_OUT_TENSORS(flags) \
    {TOP(cls_out),         "cls.output.weight",          {D_LABELS, D_EMBD}, flags}, \
    {TOP(cls_out_bias),    "cls.output.bias",            {D_LABELS},        W_VECTOR | (flags)}
/* clang-format on */

#define DECODER(name_, mode) \
    .name = (name_), .hparams = hparams, .n_hparams = COUNT_OF(hparams), .tensors = tensors, \
    .n_tensors = COUNT_OF(tensors), .rope_mode = (mode)
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

#endif
