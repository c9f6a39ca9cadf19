/* SPDX-License-Identifier: MIT */
/* src/model/arch/qwen2vl.c
 * Qwen2-VL and Qwen2.5-VL (2024), their text part: Qwen2 with positions of three numbers, each for a section of the
 * pairs. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(1000000.0),
    FOUR("rope.dimension_sections", rope_sections),
};

static const qn_tensor_row tensors[] = {
    DECODER_TENSORS,
    DECODER_QKV_BIASES(0),
};

const qn_arch qn__arch_qwen2vl = {DECODER("qwen2vl", QN_ROPE_NEOX)};
