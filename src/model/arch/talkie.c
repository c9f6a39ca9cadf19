/* SPDX-License-Identifier: MIT */
/* src/model/arch/talkie.c
 * Talkie (2026): norms without weights; queries have a factor a head; each layer adds the normalised embeddings times a
 * factor of its own. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    F32("logit_scale", logit_scale, 0, 1e6),
};

static const qn_tensor_row tensors[] = {
    {TOP(tok_embd), "token_embd.weight", {D_VOCAB, D_EMBD}, 0},
    {TOP(out), "output.weight", {D_VOCAB, D_EMBD}, 0},
    ATTN_TENSORS,
    {LAYER(attn_q_norm), "blk.%d.attn_q_norm.weight", {D_HEADS, D_ONE}, W_VECTOR | W_ONES},
    FFN_TENSORS,
    {LAYER(out_scale), "blk.%d.layer_output_scale.weight", {D_ONE}, W_VECTOR | W_ONES},
};

const qn_arch qn__arch_talkie = {
    DECODER("talkie", QN_ROPE_NEOX),
    .block = {.norm_embd = true, .embd_again = true, .attn = {.qk_norm = QN_QK_after_turn, .bare_norm = true}},
};
