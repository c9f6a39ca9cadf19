/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen2moe.c
 * Qwen1.5-MoE and Qwen2-MoE (2024): Qwen2 with a mixture of experts in every layer, and shared ones behind a gate of
 * their own. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(1e6),
    EXPERT_FF,
    EXPERT_SHARED_FF(48),
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    DECODER_QKV_BIASES(0),
    SHEXP_TENSORS,
    {LAYER(ffn_gate_inp_shexp), "blk.%d.ffn_gate_inp_shexp.weight", {D_EMBD}, W_VECTOR | W_EXPERTS | W_SHARED},
};

const qn_arch qn__arch_qwen2moe = {
    DECODER("qwen2moe", QN_ROPE_NEOX),
};
