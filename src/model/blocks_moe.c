/* SPDX-License-Identifier: MIT */
/* src/model/blocks_moe.c -- the steps of a mixture of experts as nodes of an engine's graph. x is [n_tokens, ..], ids
 * and gates [n_tokens, n_used]. */
#include "model/build.h"

#include "graph/ops/index.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reduce.h"

#include <math.h>

static qn_graph *graph(void *ctx) { return ((qn_build *)ctx)->g; }
static qn_node *node(qn_value *x) { return (qn_node *)x; }
static qn_value *value(qn_node *x) { return (qn_value *)x; }
/* Of a step that failed: 1. */
static int64_t last(qn_value *x)
{
    return x && node(x)->layout.rank > 0 ? node(x)->layout.dim[node(x)->layout.rank - 1] : 1;
}

static qn_value *score(void *ctx, qn_value *x, qn_moe_score kind)
{
    qn_graph *g = graph(ctx);
    if (kind == QN_MOE_sigmoid) return value(qn__unary(g, QN_OP_sigmoid, node(x)));
    if (kind == QN_MOE_sqrt_softplus) return value(qn__unary(g, QN_OP_sqrt, qn__softplus(g, node(x), 1, 20)));
    return value(qn__along(g, QN_OP_softmax, node(x), -1));
}

static qn_value *offset(void *ctx, qn_value *x, const qn_weight *w)
{
    return value(qn__add(graph(ctx), node(x), qn__weight(ctx, w)));
}

/* A group is as good as the sum of its two best. */
static qn_value *groups(void *ctx, qn_value *x, int64_t n, int64_t used)
{
    qn_graph *g = graph(ctx);
    const int64_t n_tokens = ((qn_build *)ctx)->n_tokens, n_expert = last(x);
    const qn_shape shape = qn_shape_of(n_tokens, n), picked = qn_shape_of(n_tokens, used);
    qn_node *by_group = qn__reshape(g, node(x), qn_shape_of(n_tokens, n, n_expert / n));
    qn_node *best = qn__gather(g, by_group, 2, qn__topk(g, by_group, 2, 2, true));
    qn_node *ids = qn__topk(g, qn__reduce(g, QN_OP_sum, best, (int[]){2}, 1, false, 0), used, 1, true);
    qn_node *mask = qn__scatter(g, qn__full(g, QN_DTYPE_F32, &shape, qn__value(-INFINITY)), 1, ids,
                                qn__full(g, QN_DTYPE_F32, &picked, qn__value(0)), QN_COMBINE_set);
    qn_node *y = qn__add(g, by_group, qn__reshape(g, mask, qn_shape_of(n_tokens, n, 1)));
    return value(qn__reshape(g, y, qn_shape_of(n_tokens, n_expert)));
}

static qn_value *choose(void *ctx, qn_value *x, int64_t n) { return value(qn__topk(graph(ctx), node(x), n, -1, true)); }

static qn_value *pick(void *ctx, qn_value *x, qn_value *ids)
{
    return value(qn__gather(graph(ctx), node(x), -1, node(ids)));
}

static qn_value *chunks(void *ctx, qn_value *ids, int64_t n)
{
    qn_graph *g = graph(ctx);
    const qn_value_attrs by = {.whole = n};
    return value(qn__binary(g, QN_OP_floor_divide, node(ids), qn__full(g, QN_DTYPE_I64, &qn_shape_of(1), by)));
}

static qn_value *weigh_by(void *ctx, qn_value *gates, const qn_weight *w, qn_value *ids)
{
    qn_graph *g = graph(ctx);
    qn_node *all = qn__expand(g, qn__weight(ctx, w), qn_shape_of(((qn_build *)ctx)->n_tokens, w->shape.dim[0]));
    return value(qn__mul(g, node(gates), qn__gather(g, all, -1, node(ids))));
}

/* A sum below the least normal number of 16 bits counts as that. */
static qn_value *normalise(void *ctx, qn_value *gates)
{
    qn_graph *g = graph(ctx);
    qn_node *sum = qn__reduce(g, QN_OP_sum, node(gates), (int[]){-1}, 1, true, 0);
    return value(qn__binary(g, QN_OP_div, node(gates), qn__clamp(g, sum, 0x1p-14, INFINITY)));
}

static qn_value *dense(void *ctx, qn_value *x, const qn_weight *w, qn_value *ids, const qn_weight *bias)
{
    return value(qn__linear_experts(graph(ctx), node(x), qn__weight(ctx, w), node(ids), qn__weight(ctx, bias)));
}

static qn_value *limited(void *ctx, qn_value *gate, qn_value *up, qn_act act, float limit)
{
    qn_graph *g = graph(ctx);
    qn_node *y = qn__clamp(g, node(qn__graph_recorder.act(ctx, gate, act)), -INFINITY, (double)limit);
    return value(qn__mul(g, y, qn__clamp(g, node(up), -(double)limit, (double)limit)));
}

static qn_value *weigh(void *ctx, qn_value *x, qn_value *gates)
{
    qn_graph *g = graph(ctx);
    const int64_t n = ((qn_build *)ctx)->n_tokens;
    qn_node *rows = qn__reshape(g, node(x), qn_shape_of(n, 1, last(x)));
    return value(qn__mul(g, rows, qn__reshape(g, node(gates), qn_shape_of(n, last(gates), 1))));
}

static qn_value *sum(void *ctx, qn_value *y, qn_value *gates)
{
    qn_graph *g = graph(ctx);
    const int64_t n = ((qn_build *)ctx)->n_tokens;
    if (!gates) return value(qn__reduce(g, QN_OP_sum, node(y), (int[]){1}, 1, false, 0));
    qn_node *total = qn__matmul(g, qn__reshape(g, node(gates), qn_shape_of(n, 1, last(gates))), node(y));
    return value(qn__reshape(g, total, qn_shape_of(n, last(y))));
}

static qn_value *switched(void *ctx, qn_value *y, qn_value *x, const qn_weight *w)
{
    qn_graph *g = graph(ctx);
    qn_node *row = qn__reshape(g, qn__weight(ctx, w), qn_shape_of(1, last(x)));
    return value(qn__mul(g, node(y), qn__unary(g, QN_OP_sigmoid, qn__linear(g, node(x), row, NULL))));
}

const qn_moe_recorder qn__graph_moe_recorder = {
    .score = score,
    .offset = offset,
    .groups = groups,
    .choose = choose,
    .pick = pick,
    .chunks = chunks,
    .weigh_by = weigh_by,
    .normalise = normalise,
    .dense = dense,
    .limited = limited,
    .weigh = weigh,
    .sum = sum,
    .switched = switched,
};
