/* SPDX-License-Identifier: MIT */
/* src/model/arch/bitnet.c
 * BitNet b1.58 (2024): Llama with a norm before the last product of attention and of the feed-forward. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    {LAYER(attn_inner_norm), "blk.%d.attn_sub_norm.weight", {D_O}, W_VECTOR | W_ONES},
    {LAYER(ffn_inner_norm), "blk.%d.ffn_sub_norm.weight", {D_FF}, W_VECTOR | W_ONES},
};

const qn_arch qn__arch_bitnet = {
    DECODER("bitnet", QN_ROPE_NEOX),
};
