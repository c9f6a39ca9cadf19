/* SPDX-License-Identifier: MIT */
/* src/lm/record.c -- the steps of a forward pass as tensor operations. x is [batch, n, n_embd] throughout, heads are
 * [batch, n, heads, d]. */
#include "lm/record.h"
#include "array/ops/functional.h"
#include <math.h>
#include <quern/functional.h>
#include <string.h>

static qn_tensor *tensor(qn_value *x) { return qn__lm_tensor(x); }
static qn_value *value(qn_tensor *x) { return qn__lm_value(x); }

static qn_tensor *weight(const qn_lm_pass *p, const qn_weight *w) { return w ? p->type->weight(p->host, w) : NULL; }

/* Weights may lie on several devices. An operation computes where its weight lies, and of two values where the second
 * does: x there. */
static qn_tensor *beside(qn_tensor *x, const qn_tensor *y) { return y ? qn__there(x, qn__place_of(y)) : x; }
static qn_tensor *beside_value(qn_value *x, qn_value *y) { return beside(tensor(x), tensor(y)); }

/* Embedded tokens decide the type that everything after them is computed in. */
static qn_tensor *embedded(const qn_lm_pass *p, const qn_weight *table, qn_tensor *ids)
{
    qn_tensor *w = weight(p, table), *x = qn_embedding(w, beside(ids, w));
    return x && p->type->as_engine ? qn_to(x, QN_DTYPE_F32) : x;
}

/* [n], or NULL for 0, 1, .. */
static qn_tensor *positions(const qn_lm_pass *p, const qn_tensor *x)
{
    return p->cache ? beside(qn__kv_positions(p->cache), x) : NULL;
}

/* The same as numbers, for x [batch, n, ..]. */
static qn_tensor *counted(const qn_lm_pass *p, const qn_tensor *x)
{
    if (p->cache) return positions(p, x);
    return beside(qn_arange(qn_context_of(x), 0, (double)qn_dim(x, 1), 1, QN_DTYPE_I64), x);
}

static qn_value *rows(void *ctx, const qn_weight *table)
{
    const qn_lm_pass *p = ctx;
    return value(embedded(p, table, p->ids));
}

static qn_value *pos_rows(void *ctx, const qn_weight *table)
{
    const qn_lm_pass *p = ctx;
    return value(embedded(p, table, counted(p, p->ids)));
}

static qn_value *first_row(void *ctx, const qn_weight *table) { return value(qn_narrow(weight(ctx, table), 0, 0, 1)); }

static qn_value *dense(void *ctx, qn_value *x, const qn_weight *w, const qn_weight *bias)
{
    const qn_lm_pass *p = ctx;
    qn_tensor *m = weight(p, w), *in = beside(tensor(x), m);
    qn_tensor *y = in ? qn_linear(in, m, beside(weight(p, bias), m)) : NULL;
    return value(y && p->type->beside ? p->type->beside(p->host, y, in, w) : y);
}

static qn_value *norm(void *ctx, qn_value *x, qn_norm_kind kind, const qn_weight *w, const qn_weight *bias)
{
    const qn_lm_pass *p = ctx;
    const double eps = (double)p->model->hp.norm_eps;
    qn_tensor *m = weight(p, w), *own = w && w->shape.rank == 1 ? m : NULL, *in = beside(tensor(x), m);
    if (!in) return NULL;
    qn_tensor *b = beside(weight(p, bias), in);
    qn_tensor *y = kind == QN_NORM_layer ? qn_layer_norm(in, 1, own, b, eps) : qn_rms_norm(in, own, eps);
    if (y && w && !own) y = qn_mul(y, m);
    return value(y && bias && kind == QN_NORM_rms ? qn_add(y, b) : y);
}

static qn_value *add(void *ctx, qn_value *a, qn_value *b)
{
    (void)ctx;
    return value(a && b ? qn_add(beside_value(a, b), tensor(b)) : NULL);
}

static qn_value *times(void *ctx, qn_value *a, qn_value *b)
{
    (void)ctx;
    return value(a && b ? qn_mul(beside_value(a, b), tensor(b)) : NULL);
}

static qn_value *weigh(void *ctx, qn_value *x, const qn_weight *w)
{
    qn_tensor *m = weight(ctx, w);
    return value(x ? qn_mul(beside(tensor(x), m), m) : NULL);
}

static qn_value *add_weighed(void *ctx, qn_value *x, qn_value *y, const qn_weight *w)
{
    return add(ctx, x, weigh(ctx, y, w));
}

#define LAST ((const int[]){-1}), 1

static qn_value *like(void *ctx, qn_value *x, qn_value *of)
{
    (void)ctx;
    if (!x || !of) return NULL;
    qn_tensor *want = qn_sqrt(qn_mean(qn_square(tensor(of)), LAST, true));
    qn_tensor *there = beside_value(x, of), *have = qn_mean(qn_square(there), LAST, true);
    have = qn_sqrt(qn_clamp(have, (double)QN_LIKE_EPS, (double)INFINITY));
    return value(qn_div(qn_mul(there, want), have));
}

static qn_value *sparse(void *ctx, qn_value *x, float deviations)
{
    (void)ctx;
    if (!x) return NULL;
    qn_tensor *std = qn_std(tensor(x), LAST, 1, true);
    qn_tensor *cut = qn_add(qn_mean(tensor(x), LAST, true), qn_mul_number(std, (double)deviations));
    return value(qn_relu(qn_sub(tensor(x), cut)));
}

static qn_value *cat_last(void *ctx, qn_value *const *x, int n)
{
    qn_tensor *all[QN_MAX_ALTUP];
    (void)ctx;
    for (int i = 0; i < n; i++) all[i] = beside_value(x[i], x[n - 1]);
    return value(qn_cat(all, n, -1));
}

static qn_value *head(void *ctx, qn_value *x, int64_t i)
{
    (void)ctx;
    return value(x ? qn_squeeze(qn_narrow(tensor(x), -2, i, 1), -2) : NULL);
}

static qn_value *dense_of(void *ctx, qn_value *x, const qn_weight *w, int64_t i)
{
    qn_tensor *m = weight(ctx, w), *in = beside(tensor(x), m);
    return value(in ? qn_linear(in, qn_squeeze(qn_narrow(m, 0, i, 1), 0), NULL) : NULL);
}

static qn_value *scale(void *ctx, qn_value *x, float factor)
{
    (void)ctx;
    return value(qn_mul_number(tensor(x), (double)factor));
}

static qn_value *clamp(void *ctx, qn_value *x, float limit)
{
    (void)ctx;
    return value(qn_clamp(tensor(x), -(double)limit, (double)limit));
}

static qn_value *softcap(void *ctx, qn_value *x, float cap)
{
    (void)ctx;
    return value(qn_mul_number(qn_tanh(qn_mul_number(tensor(x), 1 / (double)cap)), (double)cap));
}

static qn_value *drop(void *ctx, qn_value *x)
{
    const qn_lm_pass *p = ctx;
    return x && p->type->drop ? value(p->type->drop(p->host, tensor(x))) : x;
}

static qn_value *part(void *ctx, qn_value *x, int64_t start, int64_t n)
{
    (void)ctx;
    return value(x ? qn_narrow(tensor(x), -1, start, n) : NULL);
}

static qn_value *heads(void *ctx, qn_value *x, int64_t n)
{
    (void)ctx;
    if (!x) return NULL;
    qn_shape s = qn_shape_get(tensor(x));
    s.dim[s.rank] = s.dim[s.rank - 1] / n;
    s.dim[s.rank++ - 1] = n;
    return value(qn_reshape(tensor(x), s));
}

static qn_value *join(void *ctx, qn_value *x)
{
    (void)ctx;
    if (!x) return NULL;
    qn_shape s = qn_shape_get(tensor(x));
    s.dim[s.rank - 2] *= s.dim[s.rank - 1];
    s.rank--;
    return value(qn_reshape(tensor(x), s));
}

static qn_value *cat(void *ctx, qn_value *a, qn_value *b)
{
    (void)ctx;
    return value(a && b ? qn_cat((qn_tensor *const[]){beside_value(a, b), tensor(b)}, 2, -1) : NULL);
}

static qn_value *spread(void *ctx, qn_value *x, int64_t n)
{
    (void)ctx;
    if (!x) return NULL;
    qn_shape s = qn_shape_get(tensor(x));
    s.dim[s.rank - 2] = n;
    return value(qn_expand(tensor(x), s));
}

/* Each head a row by a matrix of its own. */
static qn_value *by_head(void *ctx, qn_value *x, const qn_weight *w)
{
    if (!x) return NULL;
    qn_tensor *m = weight(ctx, w);
    if (m && qn_dtype_get(qn_dtype_of(m))->class_ == QN_CLASS_block) m = qn_dequantize(m);
    m = m ? qn_transpose(qn_to(m, qn_dtype_of(tensor(x))), 1, 2) : NULL;
    return value(m ? qn_squeeze(qn_matmul(qn_unsqueeze(beside(tensor(x), m), -2), m), -2) : NULL);
}

static qn_value *turned(void *ctx, qn_value *x, qn_turn turn)
{
    const qn_lm_pass *p = ctx;
    const qn_hparams *hp = &p->model->hp;
    const qn_rope_attrs *rope = turn == QN_TURN_window ? &hp->rope_window : &hp->rope;
    qn_tensor *factors = weight(p, qn__rope_factors(p->model, turn, p->n_ctx));
    if (factors) factors = beside(factors, tensor(x));
    return value(x ? qn__rope_by(tensor(x), positions(p, tensor(x)), factors, rope) : NULL);
}

/* The factors of tokens, [n, 1, 1]. */
static qn_value *heat(void *ctx, qn_value *q, const qn_attn_spec *spec)
{
    if (!q) return NULL;
    qn_tensor *pos = qn_add_number(qn_to(counted(ctx, tensor(q)), QN_DTYPE_F32), (double)spec->heat_offset + 0.5);
    qn_tensor *steps = qn_floor(qn_mul_number(pos, 1 / (double)spec->heat_floor));
    qn_tensor *f = qn_add_number(qn_mul_number(qn_log1p(steps), (double)spec->heat), 1);
    if (f) f = qn_to(qn_view_as(f, qn_shape_of(qn_numel(f), 1, 1)), qn_dtype_of(tensor(q)));
    return value(f ? qn_mul(tensor(q), f) : NULL);
}

static qn_tensor *activated(qn_tensor *x, qn_act act)
{
    qn_tensor *y = act == QN_ACT_silu                              ? qn_silu(x)
                   : act == QN_ACT_tanh                            ? qn_tanh(x)
                   : act == QN_ACT_gelu || act == QN_ACT_gelu_tanh ? qn_gelu(x, act == QN_ACT_gelu_tanh)
                                                                   : qn_relu(x);
    return act == QN_ACT_relu2 ? qn_square(y) : y;
}

static qn_value *act(void *ctx, qn_value *x, qn_act kind)
{
    (void)ctx;
    return value(activated(tensor(x), kind));
}

static qn_value *gate(void *ctx, qn_value *y, qn_value *g, qn_attn_gate kind, int64_t n_head)
{
    (void)ctx;
    if (!y || !g) return NULL;
    qn_tensor *f = kind == QN_GATE_sigmoid ? qn_sigmoid(tensor(g)) : qn_softplus(tensor(g), 1, 20);
    f = beside(f, tensor(y));
    const int64_t row = qn_dim(tensor(y), -1);
    if (!f || qn_dim(f, -1) == row) return value(f ? qn_mul(tensor(y), f) : NULL);
    const int64_t n = qn_numel(f) / n_head;
    const qn_shape shape = qn_shape_get(tensor(y));
    qn_tensor *heads =
        qn_mul(qn_reshape(tensor(y), qn_shape_of(n, n_head, row / n_head)), qn_reshape(f, qn_shape_of(n, n_head, 1)));
    return value(heads ? qn_reshape(heads, shape) : NULL);
}

static qn_value *xielu(void *ctx, qn_value *in, const qn_ffn_spec *spec)
{
    qn_tensor *x = tensor(in);
    (void)ctx;
    if (!x) return NULL;
    qn_tensor *above = qn_mul_number(qn_square(x), (double)spec->xielu.p);
    qn_tensor *below = qn_elu(qn_clamp(x, -(double)INFINITY, (double)spec->xielu.eps), 1);
    below = qn_mul_number(qn_sub(below, x), (double)spec->xielu.n);
    qn_tensor *y = qn_where(qn_gt_number(x, 0), above, below);
    return value(qn_add(y, qn_mul_number(x, (double)spec->xielu.beta)));
}

static qn_value *gated(void *ctx, qn_value *gate, qn_value *up, qn_act kind)
{
    (void)ctx;
    if (!gate || !up) return NULL;
    qn_tensor *g = beside_value(gate, up);
    return value(kind == QN_ACT_silu ? qn_swiglu(g, tensor(up)) : qn_mul(activated(g, kind), tensor(up)));
}

/* ---- attention ---- */

/* The first position that each of `pos` sees, [n, 1]; NULL: 0. */
static qn_tensor *first_seen(const qn_sight *s, qn_tensor *pos)
{
    pos = qn_unsqueeze(pos, 1);
    if (s->kind == QN_SIGHT_window) return qn_add_number(pos, 1 - s->size);
    if (s->kind == QN_SIGHT_chunk) return qn_sub(pos, qn_remainder_number(pos, s->size));
    return s->kind == QN_SIGHT_both_window ? qn_add_number(pos, -s->size) : NULL;
}

/* What tokens of a whole text see of it, [.., n, n], where attention has no option for that. */
static qn_tensor *seen(const qn_lm_pass *p, const qn_sight *s, qn_tensor *pos)
{
    qn_tensor *first = first_seen(s, pos), *at = qn_unsqueeze(pos, 1);
    qn_tensor *sees = beside(p->sees, pos);
    if (!first) return sees;
    qn_tensor *end = s->kind == QN_SIGHT_both_window ? qn_add_number(at, s->size) : at;
    qn_tensor *mask = qn_logical_and(qn_ge(pos, first), qn_le(pos, end));
    if (!sees) return mask;
    return qn_dtype_of(sees) == QN_DTYPE_BOOL ? qn_logical_and(sees, mask)
                                              : qn_masked_fill(sees, qn_logical_not(mask), -INFINITY);
}

static bool set_sight(const qn_lm_pass *p, const qn_sight *s, const qn_tensor *q, qn_attend_spec *spec)
{
    const bool window = s->kind == QN_SIGHT_window;
    if (!p->cache && !p->sees && !spec->slopes && (window || s->kind == QN_SIGHT_all)) {
        spec->is_causal = true;
        spec->window = window ? s->size : 0;
        return true;
    }
    qn_tensor *pos = counted(p, q);
    if (p->cache) {
        spec->first = first_seen(s, pos);
        return spec->first || s->kind == QN_SIGHT_all;
    }
    spec->mask = seen(p, s, pos);
    if (!spec->mask && s->kind == QN_SIGHT_all) spec->mask = qn_ge(qn_unsqueeze(pos, 1), pos);
    return spec->mask || s->kind == QN_SIGHT_both;
}

static qn_value *attend(void *ctx, qn_value *q, qn_value *k, qn_value *v, const qn_layer *l, int i, float factor)
{
    const qn_lm_pass *p = ctx;
    qn_tensor *sinks = weight(p, l->attn_sinks);
    /* what is not said follows from the heads, but where these are not those that were trained */
    const bool follows = l->spec.attn.scale == 0 && !l->attn_kv_a && !p->type->as_engine;
    qn_attend_spec spec = {
        .heads = l->hp.n_head,
        .kv_heads = l->hp.n_kv_head,
        .scale = follows ? 0 : (double)factor,
        .softcap = (double)l->spec.attn.softcap,
        .cache = p->cache,
        .layer = i,
    };
    if (v && k && qn_shape_get(tensor(v)).rank < qn_shape_get(tensor(k)).rank) v = heads(ctx, v, l->hp.n_kv_head);
    if (l->slopes && q) {
        spec.slopes = qn__from_data_at(qn_context_of(tensor(q)), qn__place_of(tensor(q)), l->slopes,
                                       qn_shape_of(l->hp.n_head, 1, 1), QN_DTYPE_F32);
        if (!spec.slopes) return NULL;
    }
    if (!q || !k || !v || !set_sight(p, &l->spec.attn.sight, tensor(q), &spec)) return NULL;
    if (sinks && !(spec.sinks = qn_to(beside(sinks, tensor(q)), qn_dtype_of(tensor(q))))) return NULL;
    return value(qn__attend_heads(tensor(q), beside_value(k, q), beside_value(v, q), &spec));
}

static qn_value *name(void *ctx, qn_value *x, qn_role role, int i)
{
    (void)ctx, (void)role, (void)i;
    return x;
}

const qn_recorder qn__lm_recorder = {
    .rows = rows,
    .pos_rows = pos_rows,
    .first_row = first_row,
    .dense = dense,
    .norm = norm,
    .add = add,
    .times = times,
    .weigh = weigh,
    .add_weighed = add_weighed,
    .like = like,
    .sparse = sparse,
    .cat_last = cat_last,
    .head = head,
    .dense_of = dense_of,
    .scale = scale,
    .clamp = clamp,
    .softcap = softcap,
    .drop = drop,
    .part = part,
    .heads = heads,
    .join = join,
    .cat = cat,
    .spread = spread,
    .by_head = by_head,
    .turn = turned,
    .heat = heat,
    .act = act,
    .xielu = xielu,
    .gated = gated,
    .gate = gate,
    .attend = attend,
    .name = name,
};
