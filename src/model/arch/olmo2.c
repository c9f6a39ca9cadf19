/* SPDX-License-Identifier: MIT */
/* src/model/arch/olmo2.c
 * OLMo 2 and 3 (2025): norms after attention and feed-forward instead of before, queries and keys normalised over
 * all heads; OLMo 3 sees a window in three layers of four, which rotate as trained. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    U32_OR("attention.sliding_window", n_window, 0, 0, 1 << 28),
    PATTERN_OR("attention.sliding_window_pattern", windowed, 4),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,  ATTN_TENSORS,
    ROW_NORM_ROWS, NORM_ROW(attn_post_norm, "post_attention_norm"),
    FFN_TENSORS,   NORM_ROW(ffn_post_norm, "post_ffw_norm"),
};

const qn_arch qn__arch_olmo2 = {
    DECODER("olmo2", QN_ROPE_NEOX),
    .block = {.norms = QN_NORMS_after, .attn = {.qk_norm = QN_QK_row}},
};
