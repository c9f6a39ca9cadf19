/* SPDX-License-Identifier: MIT */
/* src/model/arch/deepseek2.h -- rows of DeepSeek's decoders with latent attention and mixtures. */
#ifndef QN_MODEL_ARCH_DEEPSEEK2_H
#define QN_MODEL_ARCH_DEEPSEEK2_H

#include "model/arch/experts.h"

/* clang-format off */
#define DEEPSEEK2_HPARAMS \
    LATENT_HPARAMS(10000.0), \
    U32_OR("attention.q_lora_rank",        n_lora_q, 0, 1, 65536), \
    U32_OR("attention.key_length_mla",     n_embd_head_k_mla, 0, 1, 65536), \
    U32_OR("attention.value_length_mla",   n_embd_head_v_mla, 0, 1, 65536), \
    EXPERTS_HPARAMS, EXPERT_FF, EXPERT_COUNT_SHARED, EXPERT_LEADING_DENSE, EXPERT_GATES, EXPERT_GROUPS, \
    NEXTN_LAYERS, \
    F32_OR("attention.temperature_scale",  attn_heat, 0, 0, 1e3), \
    U32_OR("attention.temperature_length", attn_heat_floor, 0, 1, 1 << 28)
#define DEEPSEEK2_TENSORS \
    EMBD_TENSORS, \
    NORM_ROW(attn_norm, "attn_norm"), \
    LATENT_TENSORS, \
    NORM_ROW(ffn_norm, "ffn_norm"), \
    FFN_TENSORS, \
    FUSED_MOE_TENSORS, \
    MOE_BIAS_ROW, \
    SHEXP_TENSORS
/* clang-format on */

/* YaRN's temperature is in the scores, not in what is rotated; files have a tenth of the authors' mscale_all_dim. */
static inline void deepseek2_settle(qn_hparams *hp)
{
    const float t = 1 + hp->rope_log_factor * logf(1 / hp->rope.freq_scale);
    if (hp->rope.ext_factor == 0 || hp->rope_log_factor == 0) return;
    hp->rope.attn_factor = hp->rope_attn_factor / qn__yarn_temperature(&hp->rope);
    hp->attn_scale = t * t / sqrtf((float)qn__latent_head(hp));
}

#endif
