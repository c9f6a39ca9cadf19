/* SPDX-License-Identifier: MIT */
/* src/model/arch/seed_oss.c
 * Seed-OSS (2025): Qwen2 whose second norm goes by another name. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(1e6),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,          NORM_ROW(attn_norm, "attn_norm"),          ATTN_TENSORS,
    DECODER_QKV_BIASES(0), NORM_ROW(ffn_norm, "post_attention_norm"), FFN_TENSORS,
};

const qn_arch qn__arch_seed_oss = {
    DECODER("seed_oss", QN_ROPE_NEOX),
};
