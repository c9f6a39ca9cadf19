/* SPDX-License-Identifier: MIT */
/* src/model/arch/olmoe.c
 * OLMoE (Muennighoff et al. 2024): queries and keys normalised over all heads, and a mixture whose gates are not
 * normalised. */
#include "model/arch/experts.h"

static const qn_hparam_row hparams[] = {
    MOE_HPARAMS(10000.0),
};

static const qn_tensor_row tensors[] = {
    MOE_DECODER_TENSORS,
    ROW_NORM_ROWS,
};

const qn_arch qn__arch_olmoe = {
    DECODER("olmoe", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_row}},
};
