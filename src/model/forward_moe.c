/* SPDX-License-Identifier: MIT */
/* src/model/forward_moe.c -- a mixture of experts, step by step, for every recorder alike. */
#include "model/forward.h"

/* The same steps of an expert and of what all tokens use are called differently. */
typedef struct names {
    qn_role gate, up, act;
} names;

static qn_value *gates_of(const qn_recorder *r, void *ctx, const qn_layer *l, int i, qn_value *router, qn_value **ids)
{
    const qn_moe_recorder *m = r->moe;
    const qn_moe_spec *spec = &l->spec.moe;
    qn_value *logits = r->dense(ctx, router, l->ffn_gate_inp, l->ffn_gate_inp_bias);
    logits = r->name(ctx, logits, QN_ROLE_ffn_moe_logits, i);
    const bool chosen = spec->score == QN_MOE_softmax_chosen;
    qn_value *probs = logits;
    if (!chosen) probs = r->name(ctx, m->score(ctx, logits, spec->score), QN_ROLE_ffn_moe_probs, i);
    qn_value *by = spec->by_logits ? logits : probs;
    if (l->exp_probs_b) by = r->name(ctx, m->offset(ctx, by, l->exp_probs_b), QN_ROLE_ffn_moe_probs_biased, i);
    if (spec->n_group > 1) {
        by = m->groups(ctx, by, spec->n_group, spec->n_group_used);
        by = r->name(ctx, by, QN_ROLE_ffn_moe_probs_masked, i);
    }
    *ids = r->name(ctx, m->choose(ctx, by, spec->n_used), QN_ROLE_ffn_moe_topk, i);
    qn_value *gates = m->pick(ctx, probs, *ids);
    if (chosen) gates = m->score(ctx, gates, QN_MOE_softmax);
    if (spec->normalise) gates = m->normalise(ctx, gates);
    if (spec->scale != 0 && spec->scale != 1) gates = r->scale(ctx, gates, spec->scale);
    if (l->ffn_down_exps_scale) gates = m->weigh_by(ctx, gates, l->ffn_down_exps_scale, *ids);
    return r->name(ctx, gates, QN_ROLE_ffn_moe_weights, i);
}

static qn_value *gated(const qn_recorder *r, void *ctx, const qn_layer *l, int i, qn_value *gate, qn_value *up,
                       float limit, const names *as)
{
    const qn_act act = l->spec.ffn.act;
    gate = r->name(ctx, gate, as->gate, i);
    up = r->name(ctx, up, as->up, i);
    qn_value *y = limit > 0 ? r->moe->limited(ctx, gate, up, act, limit) : r->gated(ctx, gate, up, act);
    return r->name(ctx, y, as->act, i);
}

static qn_value *shared(const qn_recorder *r, void *ctx, const qn_layer *l, int i, qn_value *x)
{
    static const names as = {QN_ROLE_ffn_shexp_gate, QN_ROLE_ffn_shexp_up, QN_ROLE_ffn_shexp_act};
    qn_value *gate = r->dense(ctx, x, l->ffn_gate_shexp, NULL), *up = r->dense(ctx, x, l->ffn_up_shexp, NULL);
    qn_value *h = gated(r, ctx, l, i, gate, up, l->spec.moe.shared_limit, &as);
    qn_value *y = r->name(ctx, r->dense(ctx, h, l->ffn_down_shexp, NULL), QN_ROLE_ffn_shexp_down, i);
    if (!l->ffn_gate_inp_shexp) return y;
    return r->name(ctx, r->moe->switched(ctx, y, x, l->ffn_gate_inp_shexp), QN_ROLE_ffn_shexp, i);
}

/* GroveMoE's (Wu et al. 2025): a small expert for each chunk of neighbours, with the gate of every one of them that was
 * chosen. */
static qn_value *chunked(const qn_recorder *r, void *ctx, const qn_layer *l, int i, qn_value *x, qn_value *ids,
                         qn_value *gates)
{
    static const names as = {QN_ROLE_ffn_chexp_gate, QN_ROLE_ffn_chexp_up, QN_ROLE_ffn_chexp_act};
    const qn_moe_recorder *m = r->moe;
    const qn_moe_spec *spec = &l->spec.moe;
    qn_value *of = r->name(ctx, m->chunks(ctx, ids, spec->n_chunk), QN_ROLE_ffn_chexp_topk, i);
    qn_value *gate = m->dense(ctx, x, l->ffn_gate_chexps, of, NULL), *up = m->dense(ctx, x, l->ffn_up_chexps, of, NULL);
    qn_value *h = gated(r, ctx, l, i, gate, up, spec->limit, &as);
    qn_value *y = r->name(ctx, m->dense(ctx, h, l->ffn_down_chexps, of, NULL), QN_ROLE_ffn_chexp_down, i);
    return r->name(ctx, r->scale(ctx, m->sum(ctx, y, gates), spec->chunk_scale), QN_ROLE_ffn_chexp_out, i);
}

qn_value *qn__forward_experts(const qn_recorder *r, void *ctx, const qn_layer *l, int i, qn_value *x, qn_value *router)
{
    static const names as = {QN_ROLE_ffn_moe_gate, QN_ROLE_ffn_moe_up, QN_ROLE_ffn_moe_act};
    const qn_moe_recorder *m = r->moe;
    const bool before = l->spec.moe.weight_before;
    const float limit = l->spec.moe.limit;
    qn_value *ids, *gates = gates_of(r, ctx, l, i, router, &ids);
    qn_value *in = before ? r->name(ctx, m->weigh(ctx, x, gates), QN_ROLE_ffn_moe_in, i) : x;
    const qn_ffn_spec *ffn = &l->spec.ffn;
    qn_value *h;
    if (l->ffn_gate_up_exps) {
        const int64_t n = l->ffn_gate_up_exps->shape.dim[1] / 2;
        qn_value *both = m->dense(ctx, in, l->ffn_gate_up_exps, ids, NULL);
        both = r->name(ctx, both, QN_ROLE_ffn_moe_gate_up, i);
        h = gated(r, ctx, l, i, r->part(ctx, both, 0, n), r->part(ctx, both, n, n), limit, &as);
    } else {
        qn_value *gate = ffn->plain ? NULL : m->dense(ctx, in, l->ffn_gate_exps, ids, l->ffn_gate_exps_bias);
        qn_value *up = m->dense(ctx, in, l->ffn_up_exps, ids, l->ffn_up_exps_bias);
        if (ffn->plain) {
            up = r->name(ctx, up, as.up, i);
            h = r->name(ctx, r->act(ctx, up, ffn->act), as.act, i);
        } else {
            h = gated(r, ctx, l, i, gate, up, limit, &as);
        }
    }
    qn_value *y = m->dense(ctx, h, l->ffn_down_exps, ids, l->ffn_down_exps_bias);
    y = r->name(ctx, y, QN_ROLE_ffn_moe_down, i);
    y = r->name(ctx, m->sum(ctx, y, before ? NULL : gates), QN_ROLE_ffn_moe_out, i);
    if (l->ffn_down_chexps) y = r->name(ctx, r->add(ctx, y, chunked(r, ctx, l, i, x, ids, gates)), QN_ROLE_ffn_out, i);
    if (!l->ffn_up_shexp) return y;
    return r->name(ctx, r->add(ctx, y, shared(r, ctx, l, i, x)), QN_ROLE_ffn_out, i);
}
