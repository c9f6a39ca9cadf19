/* SPDX-License-Identifier: MIT */
/* src/model/forward.c -- what a decoder computes, step by step, for every recorder alike. */
#include "model/forward.h"

#include <math.h>

typedef struct forward {
    const qn_recorder *r;
    void *ctx;
    const qn_model *m;
} forward;

static qn_value *norm(const forward *w, qn_value *x, const qn_norm_spec *spec, const qn_weight *weight,
                      const qn_weight *bias)
{
    return w->r->norm(w->ctx, x, spec->kind, weight, bias);
}

static qn_value *named(const forward *w, qn_value *x, qn_role role, int i) { return w->r->name(w->ctx, x, role, i); }

static qn_value *scaled(const forward *w, qn_value *x, float factor)
{
    return factor != 0 && factor != 1 ? w->r->scale(w->ctx, x, factor) : x;
}

static qn_value *clamped(const forward *w, qn_value *x, float limit)
{
    return limit > 0 ? w->r->clamp(w->ctx, x, limit) : x;
}

/* Queries, or keys: all heads' elements of a token, made heads and rotated. */
static qn_value *heads(const forward *w, qn_value *x, uint32_t n, const qn_weight *weight, const qn_weight *bias,
                       const qn_attn_spec *spec)
{
    const qn_qk_norm when = weight || spec->bare_norm ? spec->qk_norm : QN_QK_none;
    if (when == QN_QK_row) x = norm(w, x, &spec->norm, weight, bias);
    x = w->r->heads(w->ctx, x, n);
    if (when == QN_QK_head) x = norm(w, x, &spec->norm, weight, bias);
    if (spec->turn != QN_TURN_none) x = w->r->turn(w->ctx, x, spec->turn);
    if (when == QN_QK_after_turn) x = norm(w, x, &spec->norm, weight, bias);
    return x;
}

/* DeepSeek's: of a vector c a token come keys and values (Liu et al. 2024). A key's rotated part is all heads'. */
static qn_value *latent_attention(const forward *w, const qn_layer *l, int i, qn_value *x)
{
    const qn_recorder *r = w->r;
    void *ctx = w->ctx;
    const qn_hparams *hp = &w->m->hp;
    const qn_attn_spec *spec = &l->spec.attn;
    const int64_t d = qn__latent_head(hp), turned = hp->n_rot, rest = d - turned, lora = hp->n_lora_kv;
    qn_value *q = x;
    if (!l->attn_q) {
        q = named(w, r->dense(ctx, x, l->attn_q_a, NULL), QN_ROLE_q_a, i);
        q = named(w, norm(w, q, &spec->norm, l->attn_q_a_norm, NULL), QN_ROLE_q_a_norm, i);
    }
    q = r->dense(ctx, q, l->attn_q ? l->attn_q : l->attn_q_b, NULL);
    qn_value *all = named(w, r->dense(ctx, x, l->attn_kv_a, NULL), QN_ROLE_kv_a, i);
    qn_value *c =
        named(w, norm(w, r->part(ctx, all, 0, lora), &spec->norm, l->attn_kv_a_norm, NULL), QN_ROLE_kv_cmpr, i);
    qn_value *k_turned = r->turn(ctx, r->heads(ctx, r->part(ctx, all, lora, turned), 1), spec->turn);
    k_turned = named(w, k_turned, QN_ROLE_k_pe, i);
    q = r->heads(ctx, q, l->hp.n_head);
    qn_value *q_rest = named(w, r->part(ctx, q, 0, rest), QN_ROLE_q_nope, i);
    qn_value *q_turned = named(w, r->turn(ctx, r->part(ctx, q, rest, turned), spec->turn), QN_ROLE_q_pe, i);
    qn_value *k, *v;
    if (l->attn_k_b) {
        q_rest = r->by_head(ctx, q_rest, l->attn_k_b);
        k = r->cat(ctx, r->heads(ctx, c, 1), k_turned);
        v = c;
    } else {
        qn_value *kv = named(w, r->dense(ctx, c, l->attn_kv_b, NULL), QN_ROLE_kv, i);
        kv = r->heads(ctx, kv, l->hp.n_head);
        k = r->cat(ctx, r->part(ctx, kv, 0, rest), r->spread(ctx, k_turned, l->hp.n_head));
        v = named(w, r->join(ctx, r->part(ctx, kv, rest, qn__latent_value(hp))), QN_ROLE_v, i);
    }
    q = r->cat(ctx, q_rest, q_turned);
    k = named(w, k, QN_ROLE_k, i);
    if (spec->heat != 0) q = r->heat(ctx, q, spec);
    q = named(w, q, QN_ROLE_q, i);
    const float scale = spec->scale != 0 ? spec->scale : 1.0f / sqrtf((float)d);
    qn_value *y = named(w, r->attend(ctx, q, k, v, l, i, scale), QN_ROLE_attn, i);
    if (l->attn_v_b) {
        y = r->join(ctx, r->by_head(ctx, r->heads(ctx, y, l->hp.n_head), l->attn_v_b));
        y = named(w, y, QN_ROLE_attn_up, i);
    }
    return r->dense(ctx, y, l->attn_out, NULL);
}

static qn_value *attention(const forward *w, const qn_layer *l, int i, qn_value *x)
{
    if (l->attn_kv_a) return latent_attention(w, l, i, x);
    const qn_recorder *r = w->r;
    void *c = w->ctx;
    const qn_attn_spec *spec = &l->spec.attn;
    const int64_t dk = l->hp.d_k, n_q = l->hp.n_head * dk, n_k = l->hp.n_kv_head * dk,
                  n_v = (int64_t)l->hp.n_kv_head * l->hp.d_v;
    const bool own = l->kv_of == i;
    qn_value *q, *k = NULL, *v = NULL;
    if (l->attn_qkv) {
        qn_value *all = clamped(w, r->dense(c, x, l->attn_qkv, l->attn_qkv_bias), spec->clamp);
        all = named(w, all, QN_ROLE_qkv, i);
        q = r->part(c, all, 0, n_q);
        k = r->part(c, all, n_q, n_k);
        v = r->part(c, all, n_q + n_k, n_v);
    } else {
        q = clamped(w, r->dense(c, x, l->attn_q, l->attn_q_bias), spec->clamp);
        if (own) k = clamped(w, r->dense(c, x, l->attn_k, l->attn_k_bias), spec->clamp);
        if (own) v = l->attn_v ? clamped(w, r->dense(c, x, l->attn_v, l->attn_v_bias), spec->clamp) : k;
    }
    q = heads(w, q, l->hp.n_head, l->attn_q_norm, l->attn_q_norm_bias, spec);
    if (own) k = named(w, heads(w, k, l->hp.n_kv_head, l->attn_k_norm, l->attn_k_norm_bias, spec), QN_ROLE_k, i);
    if (own && spec->v_norm) v = norm(w, r->heads(c, v, l->hp.n_kv_head), &spec->norm, NULL, NULL);
    if (own) v = named(w, v, QN_ROLE_v, i);
    if (spec->heat != 0) q = r->heat(c, q, spec);
    q = named(w, q, QN_ROLE_q, i);
    const float scale = spec->scale != 0 ? spec->scale : 1.0f / sqrtf((float)dk);
    qn_value *y = named(w, r->attend(c, q, k, v, l, i, scale), QN_ROLE_attn, i);
    if (l->attn_gate) {
        qn_value *gate = named(w, r->dense(c, x, l->attn_gate, NULL), QN_ROLE_attn_gate, i);
        y = named(w, r->gate(c, y, gate, spec->gate, l->hp.n_head), QN_ROLE_attn_gated, i);
    }
    if (l->attn_inner_norm) y = named(w, norm(w, y, &l->spec.norm, l->attn_inner_norm, NULL), QN_ROLE_attn_sub_norm, i);
    return scaled(w, r->dense(c, y, l->attn_out, l->attn_out_bias), spec->v_scale); /* as its authors do */
}

static qn_value *dense(const forward *w, const qn_layer *l, int i, qn_value *x)
{
    const qn_recorder *r = w->r;
    void *c = w->ctx;
    const qn_ffn_spec *spec = &l->spec.ffn;
    qn_value *y;
    if (spec->plain) {
        y = named(w, r->dense(c, x, l->ffn_up, l->ffn_up_bias), QN_ROLE_ffn_up, i);
        y = spec->act == QN_ACT_xielu ? r->xielu(c, y, spec) : r->act(c, y, spec->act);
    } else if (spec->fused) {
        qn_value *both = named(w, r->dense(c, x, l->ffn_up, l->ffn_up_bias), QN_ROLE_ffn_gate_up, i);
        qn_value *gate = named(w, r->part(c, both, 0, l->hp.n_ff), QN_ROLE_ffn_gate, i);
        y = r->gated(c, gate, named(w, r->part(c, both, l->hp.n_ff, l->hp.n_ff), QN_ROLE_ffn_up, i), spec->act);
    } else {
        qn_value *gate = r->dense(c, x, l->ffn_gate, l->ffn_gate_bias);
        if (spec->sparse != 0) gate = r->sparse(c, gate, spec->sparse);
        gate = named(w, gate, QN_ROLE_ffn_gate, i);
        y = r->gated(c, gate, named(w, r->dense(c, x, l->ffn_up, l->ffn_up_bias), QN_ROLE_ffn_up, i), spec->act);
    }
    y = named(w, y, QN_ROLE_ffn_act, i);
    if (l->ffn_inner_norm) y = named(w, norm(w, y, &l->spec.norm, l->ffn_inner_norm, NULL), QN_ROLE_ffn_sub_norm, i);
    return r->dense(c, y, l->ffn_down, l->ffn_down_bias);
}

/* The feed-forward that all tokens share with a mixture beside it. */
static qn_value *beside_experts(const forward *w, const qn_layer *l, int i, qn_value *h)
{
    qn_value *y = named(w, dense(w, l, i, h), QN_ROLE_ffn_dense_out, i);
    if (!l->ffn_post_norm_dense) return y;
    return named(w, norm(w, y, &l->spec.norm, l->ffn_post_norm_dense, NULL), QN_ROLE_ffn_dense_post_norm, i);
}

/* Of h, the norm of x; begin: the layer's input. */
static qn_value *feed_forward(const forward *w, const qn_layer *l, int i, qn_value *h, qn_value *x, qn_value *begin)
{
    if (!l->ffn_gate_inp) return named(w, dense(w, l, i, h), QN_ROLE_ffn_out, i);
    const qn_moe_spec *spec = &l->spec.moe;
    qn_value *in = h;
    if (l->ffn_norm_exps) {
        in = norm(w, spec->begin ? begin : x, &l->spec.norm, l->ffn_norm_exps, NULL);
        in = named(w, in, QN_ROLE_ffn_moe_norm, i);
    }
    qn_value *router = spec->begin_router ? begin : in;
    if (l->ffn_norm_router) {
        router = scaled(w, norm(w, x, &l->spec.norm, l->ffn_norm_router, NULL), 1 / sqrtf((float)w->m->hp.n_embd));
        router = named(w, router, QN_ROLE_ffn_moe_router, i);
    }
    qn_value *y = qn__forward_experts(w->r, w->ctx, l, i, in, router);
    if (l->ffn_post_norm_exps)
        y = named(w, norm(w, y, &l->spec.norm, l->ffn_post_norm_exps, NULL), QN_ROLE_ffn_moe_post_norm, i);
    if (l->ffn_up) y = w->r->add(w->ctx, beside_experts(w, l, i, h), y);
    return named(w, scaled(w, y, spec->sum_scale), QN_ROLE_ffn_out, i);
}

/* What attention or feed-forward made, on its way to the stream. */
static qn_value *after(const forward *w, const qn_block_spec *spec, qn_value *y, const qn_weight *post, qn_role role,
                       int i)
{
    if (spec->norms == QN_NORMS_after || spec->norms == QN_NORMS_both)
        y = named(w, norm(w, y, &spec->norm, post, NULL), role, i);
    return w->r->drop(w->ctx, scaled(w, y, spec->residual_scale));
}

/* y + x, the layer's stream from there on. */
static qn_value *sum(const forward *w, const qn_block_spec *spec, qn_value *y, qn_value *x, const qn_weight *weight,
                     const qn_weight *bias)
{
    y = w->r->add(w->ctx, y, x);
    return spec->norms == QN_NORMS_sum ? norm(w, y, &spec->norm, weight, bias) : y;
}

/* Laurel (gemma3n): beside attention a learnt residual of low rank, and half of each. */
static qn_value *laurel(const forward *w, const qn_layer *l, int i, qn_value *h, qn_value *x)
{
    const qn_recorder *r = w->r;
    qn_value *y = r->dense(w->ctx, r->dense(w->ctx, h, l->laurel_l, NULL), l->laurel_r, NULL);
    y = named(w, r->add(w->ctx, norm(w, y, &l->spec.norm, l->laurel_post_norm, NULL), h), QN_ROLE_laurel, i);
    return named(w, scaled(w, r->add(w->ctx, x, y), sqrtf(0.5f)), QN_ROLE_laurel_res, i);
}

/* In a sum, what the layer computed comes first: the sum is then placed where the layer's weights are, and the stream
 * changes backends once between layers, not twice in each. */
static qn_value *block(const forward *w, const qn_layer *l, int i, qn_value *x)
{
    const qn_recorder *r = w->r;
    void *ctx = w->ctx;
    const qn_block_spec *spec = &l->spec;
    qn_value *begin = x;
    const bool before = spec->norms == QN_NORMS_before || spec->norms == QN_NORMS_both;
    qn_value *h = x;
    if (before && !spec->bare_attn)
        h = named(w, norm(w, x, &spec->norm, l->attn_norm, l->attn_norm_bias), QN_ROLE_attn_norm, i);
    qn_value *y = named(w, attention(w, l, i, h), QN_ROLE_attn_out, i);
    y = after(w, spec, y, l->attn_post_norm, QN_ROLE_attn_post_norm, i);
    if (spec->parallel) {
        if (l->ffn_norm) h = named(w, norm(w, x, &spec->norm, l->ffn_norm, l->ffn_norm_bias), QN_ROLE_ffn_norm, i);
        qn_value *z = feed_forward(w, l, i, h, x, begin);
        y = r->add(ctx, after(w, spec, z, l->ffn_post_norm, QN_ROLE_ffn_post_norm, i), y);
        return named(w, r->add(ctx, y, x), QN_ROLE_ffn_res, i);
    }
    y = sum(w, spec, y, x, l->attn_post_norm, l->attn_post_norm_bias);
    if (spec->norms == QN_NORMS_sum && l->attn_norm_2)
        y = sum(w, spec, y, x, l->attn_norm_2, l->attn_norm_2_bias); /* the layer's input once more */
    x = named(w, y, QN_ROLE_attn_res, i);
    if (l->laurel_l) x = laurel(w, l, i, h, x);
    h = before ? named(w, norm(w, x, &spec->norm, l->ffn_norm, l->ffn_norm_bias), QN_ROLE_ffn_norm, i) : x;
    y = after(w, spec, feed_forward(w, l, i, h, x, begin), l->ffn_post_norm, QN_ROLE_ffn_post_norm, i);
    return named(w, sum(w, spec, y, x, l->ffn_post_norm, l->ffn_post_norm_bias), QN_ROLE_ffn_res, i);
}

/* What the stream gets of the layer's own embedding. */
static qn_value *own_input(const forward *w, const qn_layer *l, int i, qn_value *x, qn_value *inputs)
{
    const qn_recorder *r = w->r;
    qn_value *y = r->act(w->ctx, r->dense(w->ctx, x, l->embd_gate, NULL), l->spec.ffn.act);
    y = named(w, y, QN_ROLE_per_layer_act, i);
    y = r->dense(w->ctx, r->times(w->ctx, y, r->head(w->ctx, inputs, i)), l->embd_proj, NULL);
    return named(w, norm(w, y, &l->spec.norm, l->embd_post_norm, NULL), QN_ROLE_per_layer_out, i);
}

/* ---- AltUp (Baykal et al. 2023): versions of the stream, of which a layer computes the first ---- */

static void versions(const forward *w, qn_value *x, qn_value **out)
{
    const int64_t n_embd = w->m->hp.n_embd;
    for (int j = 0; j < (int)w->m->hp.n_altup; j++) out[j] = w->r->part(w->ctx, x, j * n_embd, n_embd);
}

/* What a token's coefficients are made of, [.., n_altup]. */
static qn_value *modalities(const forward *w, const qn_layer *l, qn_value *x)
{
    qn_value *y = norm(w, x, &l->spec.norm, l->altup_router_norm, NULL);
    y = w->r->dense(w->ctx, scaled(w, y, 1.0f / (float)w->m->hp.n_embd), l->altup_router, NULL);
    return w->r->act(w->ctx, y, QN_ACT_tanh);
}

static qn_value *altup(const forward *w, const qn_layer *l, int i, const qn_stream *s)
{
    const qn_recorder *r = w->r;
    void *c = w->ctx;
    const int n = (int)w->m->hp.n_altup;
    qn_value *x[QN_MAX_ALTUP] = {0}, *guess[QN_MAX_ALTUP] = {0};
    versions(w, s->x, x);
    qn_value *coefs = r->dense(c, modalities(w, l, x[0]), l->altup_predict, NULL); /* [.., n n] */
    for (int j = 0; j < n; j++) {
        guess[j] = x[j];
        for (int k = 0; k < n; k++) guess[j] = r->add(c, r->times(c, r->part(c, coefs, j * n + k, 1), x[k]), guess[j]);
        guess[j] = named(w, guess[j], QN_ROLE_altup_predict, i);
    }
    qn_value *y = block(w, l, i, guess[0]);
    qn_value *more = r->add(c, y, scaled(w, guess[0], -1));
    coefs = r->dense(c, modalities(w, l, y), l->altup_correct, NULL); /* [.., n] */
    for (int j = 0; j < n; j++) {
        x[j] = r->add(c, r->add(c, r->times(c, r->part(c, coefs, j, 1), more), more), guess[j]);
        x[j] = named(w, x[j], QN_ROLE_altup_correct, i);
    }
    y = own_input(w, l, i, r->weigh(c, x[0], l->altup_correct_scale), s->inputs);
    for (int j = 1; j < n; j++) x[j] = r->add(c, y, x[j]);
    return named(w, r->cat_last(c, x, n), QN_ROLE_l_out, i);
}

static qn_value *altup_begin(const forward *w, qn_value *x)
{
    qn_value *all[QN_MAX_ALTUP] = {x};
    const int n = (int)w->m->hp.n_altup;
    for (int j = 1; j < n; j++) all[j] = w->r->like(w->ctx, w->r->dense_of(w->ctx, x, w->m->top.altup_proj, j - 1), x);
    return named(w, w->r->cat_last(w->ctx, all, n), QN_ROLE_altup_embd, -1);
}

/* Each step of all versions before the next one: they may be placed apart. */
static qn_value *altup_end(const forward *w, qn_value *x)
{
    qn_value *all[QN_MAX_ALTUP] = {0};
    const int n = (int)w->m->hp.n_altup;
    versions(w, x, all);
    x = all[0];
    for (int j = 1; j < n; j++) all[j] = w->r->dense_of(w->ctx, all[j], w->m->top.altup_unembd, j - 1);
    for (int j = 1; j < n; j++) all[j] = w->r->like(w->ctx, all[j], all[0]);
    for (int j = 1; j < n; j++) x = w->r->add(w->ctx, x, all[j]);
    return scaled(w, x, 1.0f / (float)n);
}

/* ---- the whole ---- */

qn_value *qn__forward_layer(const qn_recorder *r, void *ctx, const qn_model *m, int i, const qn_stream *s)
{
    const forward pass = {r, ctx, m}, *w = &pass;
    const qn_layer *l = &m->layers[i];
    if (m->hp.n_altup) return altup(w, l, i, s);
    qn_value *x = block(w, l, i, s->x);
    if (s->inputs) x = r->add(ctx, own_input(w, l, i, x, s->inputs), x);
    if (l->out_scale && l->spec.embd_again)
        x = r->add_weighed(ctx, x, s->embd, l->out_scale);
    else if (l->out_scale)
        x = r->weigh(ctx, x, l->out_scale);
    if (l->spec.norm_out) x = norm(w, x, &m->arch->block.norm, m->top.out_norm, m->top.out_norm_bias);
    return named(w, x, QN_ROLE_l_out, i);
}

const qn_weight *qn__rope_factors(const qn_model *m, qn_turn turn, int64_t n_ctx)
{
    if (turn == QN_TURN_window && m->hp.bare_window) return NULL;
    if (m->top.rope_freqs) return m->top.rope_freqs;
    return n_ctx > m->hp.rope.n_ctx_orig ? m->top.rope_long : m->top.rope_short;
}

/* An embedding for each layer: of the token, and what the stream's embedding says. */
static qn_value *layer_inputs(const forward *w, qn_value *x)
{
    const qn_hparams *hp = &w->m->hp;
    const qn_recorder *r = w->r;
    qn_value *own = scaled(w, r->rows(w->ctx, w->m->top.layer_embd), sqrtf((float)hp->n_embd_layer));
    qn_value *y = scaled(w, r->dense(w->ctx, x, w->m->top.layer_proj, NULL), 1 / sqrtf((float)hp->n_embd));
    y = norm(w, r->heads(w->ctx, y, hp->n_layer), &w->m->arch->block.norm, w->m->top.layer_proj_norm, NULL);
    y = scaled(w, r->add(w->ctx, y, r->heads(w->ctx, own, hp->n_layer)), sqrtf(0.5f));
    return named(w, y, QN_ROLE_inp_per_layer, -1);
}

qn_stream qn__forward_begin(const qn_recorder *r, void *ctx, const qn_model *m)
{
    const forward pass = {r, ctx, m}, *w = &pass;
    const qn_block_spec *spec = &m->arch->block;
    qn_value *x = scaled(w, r->rows(ctx, m->top.tok_embd), m->hp.embd_scale);
    if (m->top.type_embd) x = r->add(ctx, x, r->first_row(ctx, m->top.type_embd));
    if (m->top.pos_embd) x = r->add(ctx, x, r->pos_rows(ctx, m->top.pos_embd));
    if (m->top.embd_norm || spec->norm_embd) x = norm(w, x, &spec->norm, m->top.embd_norm, m->top.embd_norm_bias);
    x = named(w, r->drop(ctx, x), QN_ROLE_embd, -1);
    return (qn_stream){.x = m->hp.n_altup ? altup_begin(w, x) : x,
                       /* a value of its own: gradients of layers are then added up in one order, checkpointed or not */
                       .embd = spec->embd_again ? named(w, r->scale(ctx, x, 1), QN_ROLE_embd_again, -1) : NULL,
                       .inputs = m->top.layer_embd ? layer_inputs(w, x) : NULL};
}

/* A stream whose sums are normalised has no norm at its end. */
qn_value *qn__forward_hidden(const qn_recorder *r, void *ctx, const qn_model *m, qn_value *x)
{
    const forward pass = {r, ctx, m}, *w = &pass;
    if (m->arch->block.norms == QN_NORMS_sum) return x;
    if (m->hp.n_altup) x = altup_end(w, x);
    return named(w, norm(w, x, &m->arch->block.norm, m->top.out_norm, m->top.out_norm_bias), QN_ROLE_norm, -1);
}

qn_value *qn__forward_logits(const qn_recorder *r, void *ctx, const qn_model *m, qn_value *x)
{
    const forward pass = {r, ctx, m}, *w = &pass;
    x = qn__forward_hidden(r, ctx, m, x);
    x = scaled(w, r->dense(ctx, x, m->top.out, m->top.out_bias), m->hp.logit_scale);
    if (m->hp.logit_softcap > 0) x = r->softcap(ctx, x, m->hp.logit_softcap);
    return named(w, x, QN_ROLE_logits, -1);
}
