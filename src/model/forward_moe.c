/* SPDX-License-Identifier: MIT */
/* src/model/forward_moe.c -- a mixture of experts, step by step, for every recorder alike. */
#include "model/forward.h"

static qn_value *gates_of(const qn_recorder *r, void *ctx, const qn_layer *l, int i, qn_value *router, qn_value **ids)
{
    const qn_moe_recorder *m = r->moe;
    const qn_moe_spec *spec = &l->spec.moe;
    qn_value *logits = r->name(ctx, r->dense(ctx, router, l->ffn_gate_inp, l->ffn_gate_inp_bias), "ffn_moe_logits", i);
    const bool chosen = spec->score == QN_MOE_softmax_chosen;
    qn_value *probs = chosen ? logits : m->score(ctx, logits, spec->score), *by = spec->by_logits ? logits : probs;
    if (l->exp_probs_b) by = m->offset(ctx, by, l->exp_probs_b);
    if (spec->n_group > 1) by = m->groups(ctx, by, spec->n_group, spec->n_group_used);
    *ids = r->name(ctx, m->choose(ctx, by, spec->n_used), "ffn_moe_topk", i);
    qn_value *gates = m->pick(ctx, probs, *ids);
    if (chosen) gates = m->score(ctx, gates, QN_MOE_softmax);
    if (spec->normalise) gates = m->normalise(ctx, gates);
    if (spec->scale != 0 && spec->scale != 1) gates = r->scale(ctx, gates, spec->scale);
    return r->name(ctx, gates, "ffn_moe_weights", i);
}

static qn_value *gated(const qn_recorder *r, void *ctx, const qn_layer *l, qn_value *gate, qn_value *up, float limit)
{
    const qn_act act = l->spec.ffn.act;
    return limit > 0 ? r->moe->limited(ctx, gate, up, act, limit) : r->gated(ctx, gate, up, act);
}

static qn_value *shared(const qn_recorder *r, void *ctx, const qn_layer *l, qn_value *x)
{
    qn_value *gate = r->dense(ctx, x, l->ffn_gate_shexp, NULL), *up = r->dense(ctx, x, l->ffn_up_shexp, NULL);
    qn_value *y = r->dense(ctx, gated(r, ctx, l, gate, up, l->spec.moe.shared_limit), l->ffn_down_shexp, NULL);
    return l->ffn_gate_inp_shexp ? r->moe->switched(ctx, y, x, l->ffn_gate_inp_shexp) : y;
}

qn_value *qn__forward_experts(const qn_recorder *r, void *ctx, const qn_layer *l, int i, qn_value *x, qn_value *router)
{
    const qn_moe_recorder *m = r->moe;
    const bool before = l->spec.moe.weight_before;
    qn_value *ids, *gates = gates_of(r, ctx, l, i, router, &ids);
    qn_value *in = before ? m->weigh(ctx, x, gates) : x;
    const qn_ffn_spec *ffn = &l->spec.ffn;
    qn_value *h;
    if (l->ffn_gate_up_exps) {
        const int64_t n = l->ffn_gate_up_exps->shape.dim[1] / 2;
        qn_value *both = m->dense(ctx, in, l->ffn_gate_up_exps, ids, NULL);
        h = gated(r, ctx, l, r->part(ctx, both, 0, n), r->part(ctx, both, n, n), l->spec.moe.limit);
    } else {
        qn_value *gate = ffn->plain ? NULL : m->dense(ctx, in, l->ffn_gate_exps, ids, l->ffn_gate_exps_bias);
        qn_value *up = m->dense(ctx, in, l->ffn_up_exps, ids, l->ffn_up_exps_bias);
        h = ffn->plain ? r->act(ctx, up, ffn->act) : gated(r, ctx, l, gate, up, l->spec.moe.limit);
    }
    qn_value *y = m->dense(ctx, h, l->ffn_down_exps, ids, l->ffn_down_exps_bias);
    y = r->name(ctx, m->sum(ctx, y, before ? NULL : gates), "ffn_moe_out", i);
    return l->ffn_up_shexp ? r->add(ctx, y, shared(r, ctx, l, x)) : y;
}
