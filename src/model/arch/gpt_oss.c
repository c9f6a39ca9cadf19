/* SPDX-License-Identifier: MIT */
/* src/model/arch/gpt_oss.c
 * gpt-oss (2025): attention with sinks, a window in every other layer, experts with biases and a clamped SwiGLU, gates
 * that are the softmax of the chosen logits. YaRN blends between fractional bounds. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
    EXPERT_FF,
    U32_OR("attention.sliding_window", n_window, 0, 0, 1 << 28),
    PATTERN_OR("attention.sliding_window_pattern", windowed, 2),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_q), "blk.%d.attn_q.weight", {D_Q, D_EMBD}, 0},
    {LAYER(attn_k), "blk.%d.attn_k.weight", {D_K, D_EMBD}, 0},
    {LAYER(attn_v), "blk.%d.attn_v.weight", {D_V, D_EMBD}, 0},
    ATTN_OUT_TENSORS(0),
    DECODER_QKV_BIASES(0),
    SINK_ROW,
    NORM_ROW(ffn_norm, "post_attention_norm"),
    MOE_TENSORS,
    {LAYER(ffn_gate_inp_bias), "blk.%d.ffn_gate_inp.bias", {D_EXPERTS}, W_VECTOR},
    {LAYER(ffn_gate_exps_bias), "blk.%d.ffn_gate_exps.bias", {D_EXPERTS, D_FF_EXP}, W_VECTOR},
    {LAYER(ffn_up_exps_bias), "blk.%d.ffn_up_exps.bias", {D_EXPERTS, D_FF_EXP}, W_VECTOR},
    {LAYER(ffn_down_exps_bias), "blk.%d.ffn_down_exps.bias", {D_EXPERTS, D_EMBD}, W_VECTOR},
};

static void settle(qn_hparams *hp) { hp->rope.exact_bounds = 1; }

static void layer(const qn_model *m, qn_layer *l, int i)
{
    (void)m, (void)i;
    l->spec.attn.turn = QN_TURN_full;
}

const qn_arch qn__arch_gpt_oss = {
    DECODER("gpt-oss", QN_ROPE_NEOX),
    .block = {.ffn = {.act = QN_ACT_swiglu_oai}, .moe = {.score = QN_MOE_softmax_chosen}},
    .settle = settle,
    .layer = layer,
};
