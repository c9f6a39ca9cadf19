/* SPDX-License-Identifier: MIT */
/* src/model/arch/hunyuan_vl.c
 * HunyuanOCR and other Hunyuan models that see (2025), their text part: the dense Hunyuan with positions of four
 * numbers, each for a section of the pairs. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    FOUR_OR("rope.dimension_sections", rope_sections),
    F32_OR("rope.scaling.alpha", rope_alpha, 0, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    HEAD_NORM_ROWS,
};

/* Scaling of the base for longer contexts. */
static void settle(qn_hparams *hp)
{
    const float d = (float)hp->n_rot;
    if (hp->rope_alpha > 0) hp->rope.base *= powf(hp->rope_alpha, d / (d - 2));
}

const qn_arch qn__arch_hunyuan_vl = {
    DECODER("hunyuan_vl", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_after_turn}},
    .settle = settle,
};
