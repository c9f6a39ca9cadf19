/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen3.c
 * Qwen3 (Yang et al. 2025): a Llama decoder with one twist, an RMSNorm on every query and key head before RoPE. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {DECODER_HPARAMS(1e6)};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    {LAYER(attn_q_norm), "blk.%d.attn_q_norm.weight", {D_HEAD}, W_VECTOR | W_ONES},
    {LAYER(attn_k_norm), "blk.%d.attn_k_norm.weight", {D_HEAD}, W_VECTOR | W_ONES},
};

static qn_node *layer(qn_build *b, const qn_layer *l, qn_node *x, int i)
{
    return qn__decoder_layer(b, l, x, i, &(qn_attn_spec){.qk_norm = true});
}

const qn_arch qn__arch_qwen3 = {
    .name = "qwen3",
    .hparams = hparams,
    .n_hparams = COUNT_OF(hparams),
    .tensors = tensors,
    .n_tensors = COUNT_OF(tensors),
    .rope_mode = QN_ROPE_NEOX,
    .layer = layer,
    .plain_decoder = true,
};
