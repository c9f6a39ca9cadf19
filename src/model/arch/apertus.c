/* SPDX-License-Identifier: MIT */
/* src/model/arch/apertus.c
 * Apertus (2025): norms of heads, and a feed-forward without a gate whose activation, xIELU, has learnt numbers in each
 * layer. Files have them as they were learnt, before softplus. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(12000000.0),
    LF32("xielu.alpha_n", xielu_n, -64, 64),
    LF32("xielu.alpha_p", xielu_p, -64, 64),
    LF32("xielu.beta", xielu_beta, -64, 64),
    LF32("xielu.eps", xielu_eps, -1, 0),
};

static const qn_tensor_row tensors[] = {
    EMBD_TENSORS,
    ROPE_TENSORS,
    NORM_ROW(attn_norm, "attn_norm"),
    ATTN_TENSORS,
    HEAD_NORM_ROWS,
    NORM_ROW(ffn_norm, "ffn_norm"),
    {LAYER(ffn_up), "blk.%d.ffn_up.weight", {D_FF, D_EMBD}, 0},
    {LAYER(ffn_down), "blk.%d.ffn_down.weight", {D_EMBD, D_FF}, 0},
};

static float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

static void layer(const qn_model *m, qn_layer *l, int i)
{
    qn_ffn_spec *ffn = &l->spec.ffn;
    (void)m, (void)i;
    ffn->xielu.n = ffn->xielu.beta + softplus(ffn->xielu.n);
    ffn->xielu.p = softplus(ffn->xielu.p);
}

const qn_arch qn__arch_apertus = {
    DECODER("apertus", QN_ROPE_NEOX),
    .block = {.attn = {.qk_norm = QN_QK_head}, .ffn = {.act = QN_ACT_xielu, .plain = true}},
    .layer = layer,
};
