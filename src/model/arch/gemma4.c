/* SPDX-License-Identifier: MIT */
/* src/model/arch/gemma4.c
 * Gemma 4 (2026): Gemma 3 whose layers of the two kinds have heads of different sizes, with norms of values and a
 * factor for what leaves a layer. Some have a mixture beside the feed-forward, whose router has a norm of its own.
 * Small ones have an embedding for each layer, and last layers that read the keys and values of layers before them; in
 * large ones the values of layers that see all are their keys. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    DECODER_SIZES,
    RMS_EPS,
    DECODER_ROPE(1000000.0),
    DECODER_WINDOW_BASE(6, 10000.0),
    U32_OR("attention.key_length_swa", n_embd_head_k_window, 0, 1, 65536),
    U32_OR("attention.value_length_swa", n_embd_head_v_window, 0, 1, 65536),
    U32_OR("rope.dimension_count_swa", n_rot_window, 0, 2, 65536),
    U32_OR("attention.shared_kv_layers", n_kv_shared, 0, 0, 4095),
    U32_OR("embedding_length_per_layer_input", n_embd_layer, 0, 0, 1 << 16),
    U32_OR("expert_used_count", n_expert_used, 0, 1, 65536),
    U32_OR("expert_feed_forward_length", n_ff_exp, 0, 1, 1 << 22),
    F32_OR("final_logit_softcapping", logit_softcap, 0, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    ROPE_TENSORS,
    LAYER_EMBD_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    {LAYER(attn_q), "blk.%d.attn_q.weight", {D_Q, D_EMBD}, 0},
    {LAYER(attn_k), "blk.%d.attn_k.weight", {D_K, D_EMBD}, W_OPTIONAL},
    {LAYER(attn_v), "blk.%d.attn_v.weight", {D_V, D_EMBD}, W_OPTIONAL},
    {LAYER(attn_out), "blk.%d.attn_output.weight", {D_EMBD, D_O}, 0},
    {LAYER(attn_q_norm), "blk.%d.attn_q_norm.weight", {D_HEAD}, W_VECTOR | W_ONES},
    {LAYER(attn_k_norm), "blk.%d.attn_k_norm.weight", {D_HEAD}, W_VECTOR | W_ONES | W_OPTIONAL},
    NORM_ROW(attn_post_norm, "post_attention_norm"),
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_gate), "blk.%d.ffn_gate.weight", {D_FF, D_EMBD}, 0},
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
    FUSED_MOE_TENSORS,
    {LAYER(ffn_down_exps_scale), "blk.%d.ffn_down_exps.scale", {D_EXPERTS}, W_VECTOR | W_ONES | W_EXPERTS | W_OPTIONAL},
    {LAYER(ffn_norm_router), "blk.%d.ffn_gate_inp.scale", {D_EMBD}, W_VECTOR | W_ONES | W_EXPERTS},
    {LAYER(ffn_norm_exps), "blk.%d.pre_ffw_norm_2.weight", {D_EMBD}, W_VECTOR | W_ONES | W_EXPERTS},
    {LAYER(ffn_post_norm_dense), "blk.%d.post_ffw_norm_1.weight", {D_EMBD}, W_VECTOR | W_ONES | W_EXPERTS},
    {LAYER(ffn_post_norm_exps), "blk.%d.post_ffw_norm_2.weight", {D_EMBD}, W_VECTOR | W_ONES | W_EXPERTS},
    NORM_ROW(ffn_post_norm, "post_ffw_norm"),
    {LAYER(out_scale), "blk.%d.layer_output_scale.weight", {D_ONE}, W_VECTOR | W_ONES | W_OPTIONAL},
};

static void settle(qn_hparams *hp)
{
    hp->embd_scale = sqrtf((float)hp->n_embd);
    hp->attn_scale = 1;
    hp->bare_window = 1;
}

const qn_arch qn__arch_gemma4 = {
    DECODER("gemma4", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_both,
              .attn = {.qk_norm = QN_QK_head, .v_norm = true, .v_of_k = true},
              .ffn = {.act = QN_ACT_gelu_tanh},
              .moe = {.normalise = true}},
    .settle = settle,
};
