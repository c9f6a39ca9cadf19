/* SPDX-License-Identifier: MIT */
/* src/model/arch/experts.h -- rows that architectures with mixtures of experts share, beside those of decoder.h. */
#ifndef QN_MODEL_ARCH_EXPERTS_H
#define QN_MODEL_ARCH_EXPERTS_H

#include "model/arch/decoder.h"

/* clang-format off */
/* Without a size of its own an expert has feed_forward_length. */
#define EXPERTS_HPARAMS \
    U32_OF("expert_count",                     n_expert, 6, 1, 65536), \
    U32_OF("expert_used_count",                n_expert_used, 2, 1, 65536)
#define MOE_HPARAMS(default_rope_base) \
    DECODER_COMMON_SIZES, EXPERTS_HPARAMS, RMS_EPS, DECODER_ROPE(default_rope_base)
#define EXPERT_FF U32_OF("expert_feed_forward_length", n_ff_exp, 32, 1, 1 << 22)
#define EXPERT_COUNT_SHARED U32_OR("expert_shared_count", n_expert_shared, 0, 0, 1024)
#define EXPERT_SHARED(synth) U32_OF("expert_shared_count", n_expert_shared, synth, 0, 1024)
#define EXPERT_SHARED_FF(synth) U32_OF("expert_shared_feed_forward_length", n_ff_shexp, synth, 1, 1 << 22)
#define EXPERT_SHARED_FF_OR U32_OR("expert_shared_feed_forward_length", n_ff_shexp, 0, 0, 1 << 22)
#define EXPERT_LEADING_DENSE U32_OR("leading_dense_block_count", n_layer_dense, 0, 0, 4096)
#define EXPERT_STEP U32_OR("interleave_moe_layer_step", moe_step, 0, 0, 4096)
#define EXPERT_SCALE F32_OR("expert_weights_scale", expert_scale, 0, 0, 1e6)
#define EXPERT_GATING U32_OR("expert_gating_func", expert_gating, 0, 0, QN_MOE_SCORES) /* 0: the architecture's */
#define EXPERT_GATES EXPERT_GATING, EXPERT_SCALE, BOOL_OR("expert_weights_norm", expert_norm, 0)
#define EXPERT_GROUPS \
    U32_OR("expert_group_count",               n_expert_group, 0, 0, 65536), \
    U32_OR("expert_group_used_count",          n_expert_group_used, 0, 0, 65536)
/* Layers at the end that predict further tokens, and are not run. */
#define NEXTN_LAYERS U32_OR("nextn_predict_layers", n_layer_nextn, 0, 0, 4095)
#define MOE_TENSORS \
    {LAYER(ffn_gate_inp),  "blk.%d.ffn_gate_inp.weight", {D_EXPERTS, D_EMBD}, W_EXPERTS}, \
    {LAYER(ffn_gate_exps), "blk.%d.ffn_gate_exps.weight", {D_EXPERTS, D_FF_EXP, D_EMBD}, W_EXPERTS}, \
    {LAYER(ffn_up_exps),   "blk.%d.ffn_up_exps.weight",  {D_EXPERTS, D_FF_EXP, D_EMBD}, W_EXPERTS}, \
    {LAYER(ffn_down_exps), "blk.%d.ffn_down_exps.weight", {D_EXPERTS, D_EMBD, D_FF_EXP}, W_EXPERTS}
/* Gate and up in one, or apart. */
#define FUSED_MOE_TENSORS \
    {LAYER(ffn_gate_inp),  "blk.%d.ffn_gate_inp.weight", {D_EXPERTS, D_EMBD}, W_EXPERTS}, \
    {LAYER(ffn_gate_exps), "blk.%d.ffn_gate_exps.weight", {D_EXPERTS, D_FF_EXP, D_EMBD}, W_EXPERTS | W_OPTIONAL}, \
    {LAYER(ffn_up_exps),   "blk.%d.ffn_up_exps.weight", {D_EXPERTS, D_FF_EXP, D_EMBD}, W_EXPERTS | W_OPTIONAL}, \
    {LAYER(ffn_gate_up_exps), "blk.%d.ffn_gate_up_exps.weight", {D_EXPERTS, D_FF_EXP2, D_EMBD}, \
     W_EXPERTS | W_MAY_LACK}, \
    {LAYER(ffn_down_exps), "blk.%d.ffn_down_exps.weight", {D_EXPERTS, D_EMBD, D_FF_EXP}, W_EXPERTS}
/* Without a gate. */
#define PLAIN_MOE_TENSORS \
    {LAYER(ffn_gate_inp),  "blk.%d.ffn_gate_inp.weight", {D_EXPERTS, D_EMBD}, W_EXPERTS}, \
    {LAYER(ffn_up_exps),   "blk.%d.ffn_up_exps.weight",  {D_EXPERTS, D_FF_EXP, D_EMBD}, W_EXPERTS}, \
    {LAYER(ffn_down_exps), "blk.%d.ffn_down_exps.weight", {D_EXPERTS, D_EMBD, D_FF_EXP}, W_EXPERTS}
/* What is added to scores, for choosing alone. */
#define MOE_BIAS_ROW {LAYER(exp_probs_b), "blk.%d.exp_probs_b.bias", {D_EXPERTS}, W_VECTOR | W_OPTIONAL | W_EXPERTS}
/* Experts that all tokens use. */
#define SHEXP_TENSORS \
    {LAYER(ffn_gate_shexp), "blk.%d.ffn_gate_shexp.weight", {D_FF_SHEXP, D_EMBD}, W_EXPERTS | W_SHARED}, \
    {LAYER(ffn_up_shexp),  "blk.%d.ffn_up_shexp.weight", {D_FF_SHEXP, D_EMBD}, W_EXPERTS | W_SHARED}, \
    {LAYER(ffn_down_shexp), "blk.%d.ffn_down_shexp.weight", {D_EMBD, D_FF_SHEXP}, W_EXPERTS | W_SHARED}
#define MOE_DECODER_TENSORS \
    EMBD_TENSORS, \
    ROPE_TENSORS, \
    NORM_ROW(attn_norm, "attn_norm"), \
    ATTN_TENSORS, \
    NORM_ROW(ffn_norm, "ffn_norm"), \
    MOE_TENSORS
/* clang-format on */

#endif
