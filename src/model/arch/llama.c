/* SPDX-License-Identifier: MIT */
/* src/model/arch/llama.c
 * Llama (Touvron et al. 2023) and what shares its shape (Mistral, TinyLlama, SmolLM ...): pre-norm attention with
 * interleaved RoPE, and a gated feed-forward; biases where the file has them. Mixtral (Jiang et al. 2024): a mixture in
 * its place. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    U32_OR("expert_used_count", n_expert_used, 0, 1, 65536),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    MOE_TENSORS,
    DECODER_QKV_BIASES(W_MAY_LACK),
};

const qn_arch qn__arch_llama = {
    DECODER("llama", QN_ROPE_NORM),
    .block = {.moe = {.normalise = true}},
};
