/* SPDX-License-Identifier: MIT */
/* src/graph/cost.c -- what a node must touch and compute at least: the cost column of ops.def.
 *
 * Bytes count once, whatever caches hold: each source that a node reads and the value that it writes. A source is a
 * weight when its memory is a param that nothing writes, cache when it is one that nodes write, else an activation.
 * What depends on a step's tokens is a coefficient: of cells that attention sees, of experts that are chosen. */
#include "graph/internal.h"

static uint64_t numel(const qn_node *n) { return (uint64_t)qn_layout_numel(&n->layout); }

/* Bytes of n elements of the node's type, in whole blocks. */
static uint64_t bytes_of(const qn_node *n, uint64_t elems)
{
    const qn_dtype_info *d = qn_dtype_get(n->dtype);
    return (elems + (uint64_t)d->block_elems - 1) / (uint64_t)d->block_elems * (uint64_t)d->block_bytes;
}

static void touch(qn_trace_node_cost *c, const qn_node *n, uint64_t bytes)
{
    if (n->root->op != QN_OP_param)
        c->act_bytes += bytes;
    else if (n->root->flags & QN_NODE_mutable)
        c->cache_bytes += bytes;
    else
        c->weight_bytes += bytes;
}

static void touch_sources(const qn_node *n, int from, qn_trace_node_cost *c)
{
    for (int i = from; i < n->n_src; i++) touch(c, n->src[i], bytes_of(n->src[i], numel(n->src[i])));
}

void qn__cost_none(const qn_node *n, qn_trace_node_cost *c)
{
    (void)n;
    (void)c;
}

/* One operation an element of the larger of sources and result. */
void qn__cost_each(const qn_node *n, qn_trace_node_cost *c)
{
    uint64_t most = numel(n);
    for (int i = 0; i < n->n_src; i++)
        if (numel(n->src[i]) > most) most = numel(n->src[i]);
    touch_sources(n, 0, c);
    touch(c, n, bytes_of(n, numel(n)));
    c->ops += most;
}

void qn__cost_move(const qn_node *n, qn_trace_node_cost *c)
{
    touch_sources(n, 0, c);
    touch(c, n, bytes_of(n, numel(n)));
}

/* Of the table as many elements as there are in the result. */
void qn__cost_rows(const qn_node *n, qn_trace_node_cost *c)
{
    touch(c, n->src[0], bytes_of(n->src[0], numel(n)));
    touch_sources(n, 1, c);
    touch(c, n, bytes_of(n, numel(n)));
}

void qn__cost_bag(const qn_node *n, qn_trace_node_cost *c)
{
    const uint64_t width = (uint64_t)n->layout.dim[n->layout.rank - 1];
    touch(c, n->src[0], bytes_of(n->src[0], numel(n->src[1]) * width));
    touch_sources(n, 1, c);
    touch(c, n, bytes_of(n, numel(n)));
    c->ops += 2 * numel(n->src[1]) * width;
}

/* Rows and parts of a resident tensor that are written; the rest of it is left alone. */
void qn__cost_write_rows(const qn_node *n, qn_trace_node_cost *c)
{
    touch_sources(n, 1, c);
    touch(c, n, bytes_of(n, numel(n->src[1])));
}

void qn__cost_write_part(const qn_node *n, qn_trace_node_cost *c)
{
    touch_sources(n, 1, c);
    touch(c, n, bytes_of(n, numel(n->src[1])));
}

/* A multiplication and an addition for each weight and row of x. */
void qn__cost_linear(const qn_node *n, qn_trace_node_cost *c)
{
    const uint64_t width = (uint64_t)n->layout.dim[n->layout.rank - 1];
    touch_sources(n, 0, c);
    touch(c, n, bytes_of(n, numel(n)));
    c->ops += width ? 2 * numel(n->src[1]) * (numel(n) / width) : 0;
}

/* ids [n,u] choose among the matrices of w [e,m,k] and the rows of b [e,m]. */
void qn__cost_experts(const qn_node *n, qn_trace_node_cost *c)
{
    const qn_node *w = n->src[1];
    const uint64_t e = (uint64_t)w->layout.dim[0], one = e ? numel(w) / e : 0;
    touch(c, n->src[0], bytes_of(n->src[0], numel(n->src[0])));
    touch(c, n->src[2], bytes_of(n->src[2], numel(n->src[2])));
    touch(c, n, bytes_of(n, numel(n)));
    c->ops += 2 * one * numel(n->src[2]);
    c->expert_bytes += bytes_of(w, one);
    if (n->n_src > 3 && e) c->expert_bytes += bytes_of(n->src[3], numel(n->src[3]) / e);
    c->n_experts = (uint32_t)e;
    c->n_used = (uint32_t)numel(n->src[2]);
}

/* q, k, v, lists, spans (, sinks): a cell is a row of k and one of v. */
void qn__cost_attention(const qn_node *n, qn_trace_node_cost *c)
{
    const qn_node *q = n->src[0], *k = n->src[1], *v = n->src[2];
    const uint64_t heads = (uint64_t)q->layout.dim[1], d = (uint64_t)k->layout.dim[2], dv = (uint64_t)v->layout.dim[2];
    touch(c, q, bytes_of(q, numel(q)));
    touch_sources(n, 4, c);
    touch(c, n, bytes_of(n, numel(n)));
    c->cell_bytes +=
        bytes_of(k, (uint64_t)k->layout.dim[1] * d) + bytes_of(v, (uint64_t)v->layout.dim[1] * dv) + sizeof(int32_t);
    c->cell_ops += 2 * heads * (d + dv);
    c->sight = 1 + 4;
}

void qn__cost_matmul(const qn_node *n, qn_trace_node_cost *c)
{
    touch_sources(n, 0, c);
    touch(c, n, bytes_of(n, numel(n)));
    c->ops += 2 * numel(n) * (uint64_t)n->src[0]->layout.dim[n->src[0]->layout.rank - 1];
}

/* Each element of y [n,o,..] is a sum over the weights w [o,..] of its channel; the gradients are as many products. */
void qn__cost_conv(const qn_node *n, qn_trace_node_cost *c)
{
    const qn_node *y = n->op == QN_OP_conv ? n : n->op == QN_OP_conv_input ? n->src[0] : n->src[1];
    const qn_node *w = n->op == QN_OP_conv_weight ? n : n->src[1];
    touch_sources(n, 0, c);
    touch(c, n, bytes_of(n, numel(n)));
    c->ops += w->layout.dim[0] ? 2 * numel(y) * (numel(w) / (uint64_t)w->layout.dim[0]) : 0;
}

/* Scores and sums over all pairs of rows; with causal half of them. Back: four products more. */
void qn__cost_sdpa(const qn_node *n, qn_trace_node_cost *c)
{
    const qn_sdpa_attrs *a = n->attrs;
    const qn_sdpa_sizes s = qn__sdpa_sizes(&n->src[0]->layout, &n->src[1]->layout, &n->src[2]->layout);
    const uint64_t pairs = (uint64_t)(s.batch * s.heads * s.n * s.m) / (a->causal ? 2 : 1);
    touch_sources(n, 0, c);
    touch(c, n, bytes_of(n, numel(n)));
    c->ops += 2 * pairs * (uint64_t)(s.d + s.dv) * (n->op == QN_OP_sdpa_back ? 3 : 1);
}

qn_trace_node_cost qn__node_cost(const qn_node *n)
{
    qn_trace_node_cost c = {0};
    qn__op_info(n->op)->cost(n, &c);
    return c;
}
