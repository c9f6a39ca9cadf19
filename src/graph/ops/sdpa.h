/* SPDX-License-Identifier: MIT */
/* src/graph/ops/sdpa.h -- attention over whole tensors, as training has it, and its gradient: attributes, what lies
 * where in their results, and builders. Included by graph.h. Attention over a cache of cells is `attention`.
 *
 * Head h of q reads head h / (heads / kv_heads) of k and v. Row i of q sees the keys j, a run of them:
 *     causal: j <= i; with a window besides: j > i - window; else all.
 *     s[j] = scale q . k[j], then cap tanh(s / cap) with a softcap, then + mask[i,j], or -infinity where a BOOL mask is
 * false lse  = log of the sum of exp(s) over those keys, and of exp(sink of the head) if there are sinks y    = sum
 * over j of exp(s[j] - lse) v[j] A row that sees nothing, or nothing but -infinity, has y = 0; its lse is given as
 * +infinity, so that exp(s - lse) is 0 for it too.
 *
 * A node has one result, so what belongs together lies in one vector, part behind part; views take it apart. */
#ifndef QN_GRAPH_OPS_SDPA_H
#define QN_GRAPH_OPS_SDPA_H

#include "graph/graph.h"

typedef struct qn_sdpa_attrs {
    double scale;
    double softcap; /* 0: none */
    int64_t window; /* 0: none; with causal only */
    int32_t causal, has_mask, has_sinks, pad_;
} qn_sdpa_attrs;

typedef struct qn_sdpa_sizes {
    int64_t batch, heads, kv_heads, n, m, d, dv;
} qn_sdpa_sizes; /* dv: of a row of v */
static inline qn_sdpa_sizes qn__sdpa_sizes(const qn_layout *q, const qn_layout *k, const qn_layout *v)
{
    return (qn_sdpa_sizes){q->dim[0], q->dim[1], k->dim[1], q->dim[2], k->dim[2], q->dim[3], v->dim[3]};
}

/* Parts of results. Rows of y, dq, dk and dv lie as [batch, rows, heads, size], which is how products before and after
 * want them, seen as [batch, heads, rows, size]; lse and delta are [batch, heads, n]. */
/* how many elements in all */
typedef struct qn_sdpa_parts {
    qn_layout y, lse, dq, dk, dv, delta;
    int64_t forward, back;
} qn_sdpa_parts;
qn_sdpa_parts qn__sdpa_parts(const qn_sdpa_sizes *s);

/* q [batch,heads,n,d], k [batch,kv_heads,m,d], v [batch,kv_heads,m,dv], any strides, F32 or F64; mask BOOL or of their
 * dtype, sizes 1 or those of [batch,heads,n,m], or NULL; sinks [heads] or NULL -> y, lse. The builder sets has_mask and
 * has_sinks. */
qn_node *qn__sdpa(qn_graph *g, qn_node *q, qn_node *k, qn_node *v, qn_node *mask, qn_node *sinks,
                  const qn_sdpa_attrs *attrs);
/* result: of sdpa; dy: the gradient of its y [batch,heads,n,dv], or of all of it -> dq, dk, dv, and
 * delta = dy . y (- the gradient of lse), of which the gradient of a sink is -sum of exp(sink - lse) delta. */
qn_node *qn__sdpa_back(qn_graph *g, qn_node *q, qn_node *k, qn_node *v, qn_node *result, qn_node *dy, qn_node *mask,
                       const qn_sdpa_attrs *attrs);

#endif
