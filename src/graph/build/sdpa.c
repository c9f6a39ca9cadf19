/* SPDX-License-Identifier: MIT */
/* src/graph/build/sdpa.c -- builders of attention over whole tensors, and where the parts of its results lie. */
#include "graph/graph.h"

static qn_layout rows_at(int64_t offset, int64_t batch, int64_t heads, int64_t rows, int64_t size)
{
    return (qn_layout){.rank = 4,
                       .dim = {batch, heads, rows, size},
                       .stride = {rows * heads * size, size, heads * size, 1},
                       .offset = offset};
}

static qn_layout numbers_at(int64_t offset, int64_t batch, int64_t heads, int64_t n)
{
    return (qn_layout){.rank = 3, .dim = {batch, heads, n}, .stride = {heads * n, n, 1}, .offset = offset};
}

qn_sdpa_parts qn__sdpa_parts(const qn_sdpa_sizes *s)
{
    const int64_t rows = s->batch * s->heads * s->n, cells = s->batch * s->kv_heads * s->m;
    const int64_t dk = rows * s->d, dv = dk + cells * s->d, delta = dv + cells * s->dv;
    return (qn_sdpa_parts){
        .y = rows_at(0, s->batch, s->heads, s->n, s->dv),
        .lse = numbers_at(rows * s->dv, s->batch, s->heads, s->n),
        .dq = rows_at(0, s->batch, s->heads, s->n, s->d),
        .dk = rows_at(dk, s->batch, s->kv_heads, s->m, s->d),
        .dv = rows_at(dv, s->batch, s->kv_heads, s->m, s->dv),
        .delta = numbers_at(delta, s->batch, s->heads, s->n),
        .forward = rows * s->dv + rows,
        .back = delta + rows,
    };
}

qn_node *qn__sdpa(qn_graph *g, qn_node *q, qn_node *k, qn_node *v, qn_node *mask, qn_node *sinks,
                  const qn_sdpa_attrs *attrs)
{
    qn_node *src[5] = {q, k, v};
    int n = 3;
    qn_sdpa_attrs a = *attrs;
    a.has_mask = mask != NULL;
    a.has_sinks = sinks != NULL;
    if (mask != NULL) src[n++] = mask;
    if (sinks != NULL) src[n++] = sinks;
    return qn__op(g, QN_OP_sdpa, &a, src, n);
}

qn_node *qn__sdpa_back(qn_graph *g, qn_node *q, qn_node *k, qn_node *v, qn_node *result, qn_node *dy, qn_node *mask,
                       const qn_sdpa_attrs *attrs)
{
    qn_sdpa_attrs a = *attrs;
    a.has_mask = mask != NULL;
    a.has_sinks = 0; /* they are in lse */
    return qn__op(g, QN_OP_sdpa_back, &a, (qn_node *[]){q, k, v, result, dy, mask}, mask != NULL ? 6 : 5);
}
