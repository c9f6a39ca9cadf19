/* SPDX-License-Identifier: MIT */
/* src/model/blocks.c -- the steps of a forward pass as nodes of an engine's graph. x is [n_tokens, n_embd] throughout.
 */
#include "model/build.h"

#include "graph/ops/index.h"
#include "graph/ops/layers.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reduce.h"

#include <math.h>
#include <stdio.h>

qn_node *qn__weight(qn_build *b, const qn_weight *w)
{
    if (!w) return NULL;
    qn_node **slot = &b->params[w->index];
    if (!*slot) {
        *slot = qn__param(b->g, w->name, w->dtype, &w->shape, w->buffer, w->offset, 0);
        /* Norms and biases enter float kernels; a file may store them in 16 bits. */
        if (w->vector && w->dtype != QN_DTYPE_F32) *slot = qn__copy(b->g, *slot, QN_DTYPE_F32);
    }
    return *slot;
}

static qn_node *half(qn_build *b, const qn_weight *w)
{
    return qn__param(b->g, w->name, w->dtype, &w->shape, w->buffer, w->offset, 0);
}

/* y + scale (x a^T) b^T for every adapter that has a pair for w: the product with r numbers in the middle is the small
 * one to scale. */
static qn_node *adapted(qn_build *b, qn_node *y, qn_node *x, const qn_weight *w)
{
    qn_graph *g = b->g;
    for (int i = 0; i < b->n_loras; i++) {
        const qn_adapter_use *use = &b->loras[i];
        const qn_lora_pair *pair = &use->adapter->of[w->index];
        if (!pair->a.tensor || use->scale == 0) continue;
        qn_node *h = qn__linear(g, x, half(b, &pair->a), NULL); /* [n, r] */
        h = qn__scale(g, h, use->scale * qn__adapter_factor(use->adapter, pair), 0);
        y = qn__add(g, y, qn__linear(g, h, half(b, &pair->b), NULL)); /* [n, out] */
    }
    return y;
}

/* ---- the recorder ---- */

static qn_node *node(qn_value *x) { return (qn_node *)x; }
static qn_value *value(qn_node *x) { return (qn_value *)x; }

static qn_value *rows(void *ctx, const qn_weight *table)
{
    qn_build *b = ctx;
    return value(qn__get_rows(b->g, qn__weight(b, table), b->tokens));
}

static qn_value *pos_rows(void *ctx, const qn_weight *table)
{
    qn_build *b = ctx;
    return value(qn__get_rows(b->g, qn__weight(b, table), b->pos));
}

static qn_value *first_row(void *ctx, const qn_weight *table)
{
    qn_build *b = ctx;
    return value(qn__narrow(b->g, qn__weight(b, table), 0, 0, 1));
}

static qn_value *dense(void *ctx, qn_value *x, const qn_weight *w, const qn_weight *bias)
{
    qn_build *b = ctx;
    qn_node *y = qn__linear(b->g, node(x), qn__weight(b, w), qn__weight(b, bias));
    return value(b->n_loras ? adapted(b, y, node(x), w) : y);
}

static qn_value *norm(void *ctx, qn_value *x, qn_norm_kind kind, const qn_weight *w, const qn_weight *bias)
{
    qn_build *b = ctx;
    qn_node *own = w && w->shape.rank == 1 ? qn__weight(b, w) : NULL;
    qn_node *y = kind == QN_NORM_layer
                     ? qn__layer_norm(b->g, node(x), own, qn__weight(b, bias), (double)b->hp->norm_eps)
                     : qn__rms_norm(b->g, node(x), own, b->hp->norm_eps);
    if (w && !own) y = qn__mul(b->g, y, qn__weight(b, w));
    return value(bias && kind == QN_NORM_rms ? qn__add(b->g, y, qn__weight(b, bias)) : y);
}

static qn_value *add(void *ctx, qn_value *x, qn_value *y)
{
    return value(qn__add(((qn_build *)ctx)->g, node(x), node(y)));
}

static qn_value *times(void *ctx, qn_value *a, qn_value *b)
{
    return value(qn__mul(((qn_build *)ctx)->g, node(a), node(b)));
}

static qn_value *weigh(void *ctx, qn_value *x, const qn_weight *w)
{
    return value(qn__mul(((qn_build *)ctx)->g, node(x), qn__weight(ctx, w)));
}

static qn_value *add_weighed(void *ctx, qn_value *x, qn_value *y, const qn_weight *w)
{
    return value(qn__addcmul(((qn_build *)ctx)->g, node(x), node(y), qn__weight(ctx, w), (qn_value_attrs){.value = 1}));
}

static qn_node *mean_of(qn_graph *g, qn_node *x) { return qn__reduce(g, QN_OP_mean, x, (int[]){-1}, 1, true, 0); }

static qn_value *like(void *ctx, qn_value *x, qn_value *of)
{
    qn_graph *g = ((qn_build *)ctx)->g;
    qn_node *want = qn__unary(g, QN_OP_sqrt, mean_of(g, qn__unary(g, QN_OP_square, node(of))));
    qn_node *have = mean_of(g, qn__unary(g, QN_OP_square, node(x)));
    have = qn__unary(g, QN_OP_sqrt, qn__clamp(g, have, (double)QN_LIKE_EPS, (double)INFINITY));
    return value(qn__binary(g, QN_OP_div, qn__mul(g, node(x), want), have));
}

static qn_value *sparse(void *ctx, qn_value *x, float deviations)
{
    qn_graph *g = ((qn_build *)ctx)->g;
    qn_node *std = qn__reduce(g, QN_OP_std, node(x), (int[]){-1}, 1, true, 1);
    qn_node *cut = qn__add(g, mean_of(g, node(x)), qn__scale(g, std, deviations, 0));
    return value(qn__unary(g, QN_OP_relu, qn__binary(g, QN_OP_sub, node(x), cut)));
}

static qn_value *cat_last(void *ctx, qn_value *const *x, int n)
{
    qn_node *nodes[QN_MAX_ALTUP];
    for (int i = 0; i < n; i++) nodes[i] = node(x[i]);
    return value(qn__cat(((qn_build *)ctx)->g, nodes, n, -1));
}

static qn_value *head(void *ctx, qn_value *x, int64_t i)
{
    qn_build *b = ctx;
    qn_node *y = qn__narrow(b->g, node(x), -2, i, 1);
    return value(qn__reshape(b->g, y, qn_shape_of(b->n_tokens, -1)));
}

static qn_value *dense_of(void *ctx, qn_value *x, const qn_weight *w, int64_t i)
{
    qn_build *b = ctx;
    qn_node *one = qn__narrow(b->g, qn__weight(b, w), 0, i, 1);
    return value(
        qn__linear(b->g, node(x), qn__reshape(b->g, one, qn_shape_of(w->shape.dim[1], w->shape.dim[2])), NULL));
}

static qn_value *scale(void *ctx, qn_value *x, float factor)
{
    return value(qn__scale(((qn_build *)ctx)->g, node(x), factor, 0));
}

static qn_value *clamp(void *ctx, qn_value *x, float limit)
{
    return value(qn__clamp(((qn_build *)ctx)->g, node(x), -(double)limit, (double)limit));
}

static qn_value *softcap(void *ctx, qn_value *x, float cap)
{
    qn_graph *g = ((qn_build *)ctx)->g;
    return value(qn__scale(g, qn__unary(g, QN_OP_tanh, qn__scale(g, node(x), 1 / cap, 0)), cap, 0));
}

static qn_value *drop(void *ctx, qn_value *x)
{
    (void)ctx;
    return x;
}

static qn_value *part(void *ctx, qn_value *x, int64_t start, int64_t n)
{
    return value(qn__narrow(((qn_build *)ctx)->g, node(x), -1, start, n));
}

static qn_value *heads(void *ctx, qn_value *x, int64_t n)
{
    qn_build *b = ctx;
    const int64_t row = node(x) && node(x)->layout.rank > 0 ? node(x)->layout.dim[node(x)->layout.rank - 1] : n;
    return value(qn__reshape(b->g, node(x), qn_shape_of(b->n_tokens, n, row / n)));
}

static qn_node *in_a_row(qn_build *b, qn_node *x)
{
    return x && !qn_layout_is_contiguous(&x->layout) ? qn__copy(b->g, x, QN_DTYPE_F32) : x;
}

static int64_t last_dim(const qn_node *x, int back)
{
    return x && x->layout.rank >= back ? x->layout.dim[x->layout.rank - back] : 1; /* none: the graph has failed */
}

static qn_value *join(void *ctx, qn_value *x)
{
    qn_build *b = ctx;
    const int64_t n = last_dim(node(x), 2) * last_dim(node(x), 1);
    return value(qn__reshape(b->g, in_a_row(b, node(x)), qn_shape_of(b->n_tokens, n)));
}

static qn_value *cat(void *ctx, qn_value *a, qn_value *c)
{
    return value(qn__cat(((qn_build *)ctx)->g, (qn_node *[]){node(a), node(c)}, 2, -1));
}

static qn_value *spread(void *ctx, qn_value *x, int64_t n)
{
    qn_build *b = ctx;
    return value(qn__expand(b->g, node(x), qn_shape_of(b->n_tokens, n, last_dim(node(x), 1))));
}

/* Head h by matrix h: experts whose numbers are those of heads. */
static qn_value *by_head(void *ctx, qn_value *x, const qn_weight *w)
{
    qn_build *b = ctx;
    qn_graph *g = b->g;
    const int64_t n = w->shape.dim[0];
    if (!b->head_ids) {
        const qn_value_attrs zero = {0}, one = {.whole = 1};
        qn_node *rows = qn__full(g, QN_DTYPE_I32, &qn_shape_of(b->n_tokens, 1), zero);
        b->head_ids = qn__add(g, rows, qn__arange(g, QN_DTYPE_I32, n, zero, one));
    }
    return value(qn__linear_experts(g, in_a_row(b, node(x)), qn__weight(b, w), b->head_ids, NULL));
}

/* One table serves all layers; where the file has two sets of factors, the context decides. */
static qn_node *table_of(qn_build *b, qn_turn turn)
{
    const qn_rope_attrs *rope = turn == QN_TURN_window ? &b->hp->rope_window : &b->hp->rope;
    if (!b->rope_table[turn])
        b->rope_table[turn] =
            qn__role(b->g,
                     qn__rope_table(b->g, b->pos, qn__weight(b, qn__rope_factors(b->model, turn, b->kv->n_ctx)),
                                    &(qn_rope_table_attrs){*rope, QN_DTYPE_F32}),
                     turn == QN_TURN_window ? QN_ROLE_rope_table_window : QN_ROLE_rope_table, -1);
    return b->rope_table[turn];
}

static qn_value *turned(void *ctx, qn_value *x, qn_turn turn)
{
    qn_build *b = ctx;
    const qn_rope_attrs *of = turn == QN_TURN_window ? &b->hp->rope_window : &b->hp->rope;
    const qn_rope_apply_attrs rope = {.mode = of->mode, .n_rot = of->n_rot};
    return value(qn__rope_apply(b->g, node(x), table_of(b, turn), &rope));
}

/* The factors of tokens, [n_tokens, 1, 1]. Half a position more keeps the floor exact to position 2^22, whatever the
 * division rounds. */
static qn_value *heat(void *ctx, qn_value *q, const qn_attn_spec *spec)
{
    qn_build *b = ctx;
    qn_graph *g = b->g;
    qn_node *pos = qn__scale(g, qn__copy(g, b->pos, QN_DTYPE_F32), 1, spec->heat_offset + 0.5f);
    qn_node *steps = qn__unary(g, QN_OP_floor, qn__scale(g, pos, 1.0f / (float)spec->heat_floor, 0));
    qn_node *f = qn__scale(g, qn__unary(g, QN_OP_log, qn__scale(g, steps, 1, 1)), spec->heat, 1);
    return value(qn__mul(g, node(q), qn__reshape(g, f, qn_shape_of(b->n_tokens, 1, 1))));
}

static qn_node *activated(qn_graph *g, qn_node *x, qn_act act)
{
    qn_node *y = act == QN_ACT_silu                              ? qn__silu(g, x)
                 : act == QN_ACT_tanh                            ? qn__unary(g, QN_OP_tanh, x)
                 : act == QN_ACT_gelu || act == QN_ACT_gelu_tanh ? qn__gelu(g, x, act == QN_ACT_gelu_tanh)
                                                                 : qn__unary(g, QN_OP_relu, x);
    return act == QN_ACT_relu2 ? qn__unary(g, QN_OP_square, y) : y;
}

static qn_value *act(void *ctx, qn_value *x, qn_act kind)
{
    return value(activated(((qn_build *)ctx)->g, node(x), kind));
}

static qn_value *gate(void *ctx, qn_value *y, qn_value *g, qn_attn_gate kind, int64_t n_head)
{
    qn_build *b = ctx;
    qn_node *f = kind == QN_GATE_sigmoid ? qn__unary(b->g, QN_OP_sigmoid, node(g)) : qn__softplus(b->g, node(g), 1, 20);
    if (!f || !node(y) || f->layout.dim[1] == node(y)->layout.dim[1]) return value(qn__mul(b->g, node(y), f));
    const int64_t n = b->n_tokens, row = node(y)->layout.dim[1];
    qn_node *heads = qn__reshape(b->g, node(y), qn_shape_of(n, n_head, row / n_head));
    heads = qn__mul(b->g, heads, qn__reshape(b->g, f, qn_shape_of(n, n_head, 1)));
    return value(qn__reshape(b->g, heads, qn_shape_of(n, row)));
}

static qn_node *swiglu_oai(qn_graph *g, qn_node *gate, qn_node *up)
{
    gate = qn__clamp(g, gate, -INFINITY, 7);
    up = qn__scale(g, qn__clamp(g, up, -7, 7), 1, 1);
    gate = qn__mul(g, gate, qn__unary(g, QN_OP_sigmoid, qn__scale(g, gate, 1.702f, 0)));
    return qn__mul(g, gate, up);
}

static qn_value *xielu(void *ctx, qn_value *in, const qn_ffn_spec *spec)
{
    qn_graph *g = ((qn_build *)ctx)->g;
    qn_node *x = node(in), *not_above = qn__unary(g, QN_OP_logical_not, qn__unary(g, QN_OP_relu, x));
    qn_node *above = qn__scale(g, qn__unary(g, QN_OP_square, x), spec->xielu.p, 0);
    qn_node *below = qn__elu(g, qn__clamp(g, x, -(double)INFINITY, (double)spec->xielu.eps), 1);
    below = qn__scale(g, qn__binary(g, QN_OP_sub, below, x), spec->xielu.n, 0);
    return value(qn__add(g, qn__where(g, not_above, below, above), qn__scale(g, x, spec->xielu.beta, 0)));
}

static qn_value *gated(void *ctx, qn_value *gate, qn_value *up, qn_act kind)
{
    qn_graph *g = ((qn_build *)ctx)->g;
    if (kind == QN_ACT_swiglu_oai) return value(swiglu_oai(g, node(gate), node(up)));
    return value(qn__mul(g, activated(g, node(gate), kind), node(up)));
}

qn_node *qn__cache(qn_graph *g, qn_role role, int layer, qn_dtype type, int64_t n_cells, int64_t row, void *buffer,
                   uint64_t offset)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%d", qn__role_name(role), layer);
    return qn__param(g, name, type, &qn_shape_of(n_cells, row), buffer, offset, QN_NODE_mutable);
}

/* The cache is written first and then read through the result of the write: the order is in the graph, not in a
 * convention. */
static qn_node *written(qn_build *b, qn_role role, int i, int32_t group, void *buffer, uint64_t offset, qn_node *x,
                        int64_t row)
{
    const int64_t n_cells = b->kv->sizes[group].n_cells;
    qn_node *cache = qn__cache(b->g, role, i, b->kv->type, n_cells, row, buffer, offset);
    return qn__set_rows(b->g, cache, qn__reshape(b->g, x, qn_shape_of(b->n_tokens, row)), b->rows[group]);
}

/* All lists of a buffer as they are when the entries that came with the inputs are written: once a buffer. */
static qn_node *lists_now(qn_build *b, int i, const qn_kv_layer *kl)
{
    for (int j = 0; j < i; j++)
        if (b->list_now[j] && b->kv->layers[j].list_buffer == kl->list_buffer) return b->list_now[j];
    const int64_t n = (int64_t)(b->kv->list_bytes / sizeof(int32_t));
    qn_node *all = qn__param(b->g, qn__role_name(QN_ROLE_lists), QN_DTYPE_I32, &qn_shape_of(n, 1), kl->list_buffer, 0,
                             QN_NODE_mutable);
    return b->list_now[i] = qn__set_rows(b->g, all, b->list_to, b->list_at);
}

/* One param for all layers whose lists lie there; with the positions behind them, for ALiBi, another. */
static qn_node *lists_of(qn_build *b, int i, const qn_kv_layer *kl, bool positions)
{
    const qn_kv_size *size = &b->kv->sizes[kl->group];
    const int64_t n_lists = (int64_t)size->n_seq * (positions ? 2 : 1);
    for (int j = 0; j < i; j++) {
        const qn_kv_layer *other = &b->kv->layers[j];
        if (b->lists[j] && other->group == kl->group && other->list_buffer == kl->list_buffer &&
            b->lists[j]->layout.dim[0] == n_lists)
            return b->lists[j];
    }
    if (kl->list_rides) {
        const int64_t first = (int64_t)(b->kv->list_offset[kl->group] / sizeof(int32_t));
        qn_node *part = qn__narrow(b->g, lists_now(b, i, kl), 0, first, n_lists * size->row);
        return b->lists[i] = qn__reshape(b->g, part, qn_shape_of(n_lists, size->row));
    }
    return b->lists[i] = qn__param(b->g, qn__role_name(QN_ROLE_lists), QN_DTYPE_I32, &qn_shape_of(n_lists, size->row),
                                   kl->list_buffer, b->kv->list_offset[kl->group], 0);
}

static qn_value *attend(void *ctx, qn_value *q, qn_value *k, qn_value *v, const qn_layer *l, int i, float scale)
{
    qn_build *b = ctx;
    qn_graph *g = b->g;
    const qn_kv_layer *kl = &b->kv->layers[l->kv_of];
    const qn_kv_size *size = &b->kv->sizes[kl->group];
    const int64_t n_kv = l->hp.n_kv_head, dk = l->hp.d_k, dv = l->hp.d_v, n_cells = size->n_cells;
    if (l->kv_of == i) {
        b->cache_k[i] = written(b, QN_ROLE_cache_k, i, kl->group, kl->k_buffer, kl->k_offset, node(k), n_kv * dk);
        b->cache_v[i] = l->attn_k_b
                            ? qn__narrow(g, b->cache_k[i], -1, 0, dv)
                            : written(b, QN_ROLE_cache_v, i, kl->group, kl->v_buffer, kl->v_offset, node(v), n_kv * dv);
        qn__role(g, b->cache_k[i], QN_ROLE_cache_k_new, i);
        qn__role(g, b->cache_v[i], QN_ROLE_cache_v_new, i);
    }
    const qn_attn_attrs attrs = {.scale = scale, .softcap = l->spec.attn.softcap, .alibi = l->spec.attn.alibi};
    qn_node *spans = b->spans[l->sight];
    if (b->model->alibi && attrs.alibi <= 0) spans = qn__narrow(g, spans, -1, 0, 3);
    const qn_attn_sources src = {.q = node(q),
                                 .k = qn__reshape(g, b->cache_k[l->kv_of], qn_shape_of(n_cells, n_kv, dk)),
                                 .v = qn__reshape(g, b->cache_v[l->kv_of], qn_shape_of(n_cells, n_kv, dv)),
                                 .lists = lists_of(b, i, kl, attrs.alibi > 0),
                                 .spans = spans,
                                 .sinks = qn__weight(b, l->attn_sinks)};
    return value(qn__attention(g, &src, &attrs));
}

static qn_value *name(void *ctx, qn_value *x, qn_role role, int i)
{
    return value(qn__role(((qn_build *)ctx)->g, node(x), role, i));
}

const qn_recorder qn__graph_recorder = {
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
    .moe = &qn__graph_moe_recorder,
};
