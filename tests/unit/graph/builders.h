/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/builders.h -- graphs that no model builds: constants, and products, joins and views of several
 * nodes. */
#ifndef TESTS_GRAPH_BUILDERS_H
#define TESTS_GRAPH_BUILDERS_H

#include <string.h>

#include "base/error.h"
#include "graph/internal.h"
#include "tensor/shape.h"

/* A param whose bytes are known, as the pass that folds makes them; they are copied. */
static inline qn_node *qn__const(qn_graph *g, const char *name, qn_dtype dtype, const qn_shape *shape, const void *host)
{
    qn_node *n = qn__param(g, name, dtype, shape, NULL, 0, 0);
    if (g->error.status != QN_OK) return n;
    const size_t bytes = (size_t)qn__node_bytes(n);
    void *copy = qn__arena_alloc_aligned(&g->arena, bytes, QN_ALIGN_CPU);
    if (copy == NULL) {
        qn_error e = {0};
        (void)QN_FAIL_NOMEM(&e, bytes);
        return qn__stick(g, &e);
    }
    if (bytes > 0) memcpy(copy, host, bytes);
    n->host = copy;
    n->flags |= QN_NODE_const;
    return n;
}

static inline qn_node *refuse_as(qn_graph *g, qn_status status, qn_error *e, const char *what)
{
    (void)qn__prefix(e, status, "%s", what);
    return qn__stick(g, e);
}

static inline bool buildable(const qn_graph *g, const qn_node *n) { return g->error.status == QN_OK && n != NULL; }

static inline qn_node *view_as(qn_graph *g, qn_node *x, const qn_layout *layout)
{
    qn_view_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    qn__layout_canonical(&attrs.layout, layout);
    return qn__op(g, QN_OP_view, &attrs, &x, 1);
}

/* beta c + alpha a b */
static inline qn_node *qn__addmm(qn_graph *g, qn_node *c, qn_node *a, qn_node *b, double beta, double alpha)
{
    const qn_matmul_attrs attrs = {.alpha = alpha, .beta = beta};
    return qn__op(g, QN_OP_matmul, &attrs, (qn_node *[]){a, b, c}, 3);
}

/* A view. */
static inline qn_node *qn__diagonal(qn_graph *g, qn_node *x, int64_t offset, int dim0, int dim1)
{
    if (!buildable(g, x)) return g->bad;
    qn_error e = {0};
    const qn_layout *in = &x->layout;
    int d0, d1;
    qn_status status = qn__dim_index("diagonal", in, dim0, false, &d0, &e);
    if (status == QN_OK) status = qn__dim_index("diagonal", in, dim1, false, &d1, &e);
    if (status == QN_OK && d0 == d1) status = QN_FAIL(&e, invalid, "dimension %d is named twice", d0);
    if (status != QN_OK) return refuse_as(g, status, &e, "diagonal");
    qn_layout out = {.offset = in->offset};
    for (int i = 0; i < in->rank; i++) {
        if (i == d0 || i == d1) continue;
        out.dim[out.rank] = in->dim[i];
        out.stride[out.rank++] = in->stride[i];
    }
    const int64_t rows = in->dim[d0] - (offset < 0 ? -offset : 0), cols = in->dim[d1] - (offset > 0 ? offset : 0);
    const int64_t size = rows < cols ? rows : cols;
    out.dim[out.rank] = size > 0 ? size : 0;
    out.stride[out.rank++] = in->stride[d0] + in->stride[d1];
    if (size > 0) out.offset += offset >= 0 ? offset * in->stride[d1] : -offset * in->stride[d0];
    return view_as(g, x, &out);
}

static inline qn_node *qn__stack(qn_graph *g, qn_node *const *x, int n, int dim)
{
    if (g->error.status != QN_OK) return g->bad;
    qn_error e = {0};
    qn_layout out;
    if (n < 1 || x[0] == NULL) {
        (void)QN_FAIL(&e, invalid, "stack: nothing to join");
        return qn__stick(g, &e);
    }
    const qn_status status = qn_layout_unsqueeze(&x[0]->layout, dim, &out, &e);
    if (status != QN_OK) return refuse_as(g, status, &e, "stack");
    const int d = dim < 0 ? dim + out.rank : dim;
    qn_shape shape = qn_layout_shape(&out);
    shape.dim[d] = n;
    for (int i = 0; i < n; i++) {
        if (x[i] != NULL && x[i]->dtype == x[0]->dtype && x[i]->layout.rank == x[0]->layout.rank) continue;
        (void)QN_FAIL(&e, invalid, "stack: source %d is not like source 0", i);
        return qn__stick(g, &e);
    }
    qn_node *y = qn__empty(g, x[0]->dtype, shape);
    if (!buildable(g, y) || y == g->bad) return g->bad;
    const qn_layout whole = y->layout;
    for (int i = 0; i < n; i++) {
        qn_layout part;
        if (qn_layout_select(&whole, d, i, &part, &e) != QN_OK) return qn__stick(g, &e);
        y = qn__strided_update(g, y, x[i], &part, QN_COMBINE_set);
    }
    return y;
}

/* One dimension at a time: [.., 1, d, ..] expanded to [.., times, d, ..] and copied; ones cost nothing. */
static inline qn_node *qn__repeat(qn_graph *g, qn_node *x, const int64_t *times, int n)
{
    if (!buildable(g, x)) return g->bad;
    qn_error e = {0};
    if (n < x->layout.rank || n > QN_MAX_RANK) {
        (void)QN_FAIL(&e, invalid, "repeat: %d counts for %d dimensions", n, x->layout.rank);
        return qn__stick(g, &e);
    }
    qn_shape shape = {.rank = n};
    for (int i = 0; i < n; i++) {
        const int from = i - (n - x->layout.rank);
        shape.dim[i] = from < 0 ? 1 : x->layout.dim[from];
        int64_t size;
        if (times[i] < 0 || __builtin_mul_overflow(times[i], shape.dim[i], &size)) {
            (void)QN_FAIL(&e, invalid, "repeat: %lld times", (long long)times[i]);
            return qn__stick(g, &e);
        }
    }
    /* From the last: what is repeated inside is small, and the rank never grows past n + 1; dimensions before i are
     * folded. */
    qn_node *y = qn__copy(g, x, x->dtype);
    y = qn__reshape(g, y, shape);
    for (int i = n - 1; i >= 0; i--) {
        if (times[i] == 1 || !buildable(g, y) || y == g->bad) continue;
        int64_t outer = 1, inner = 1;
        for (int k = 0; k < i; k++) outer *= shape.dim[k];
        for (int k = i; k < n; k++) inner *= shape.dim[k];
        qn_node *flat = qn__reshape(g, y, qn_shape_of(outer, 1, inner));
        if (!buildable(g, flat) || flat == g->bad) return g->bad;
        qn_layout wide;
        if (qn_layout_expand(&flat->layout, &qn_shape_of(outer, times[i], inner), &wide, &e) != QN_OK)
            return qn__stick(g, &e);
        shape.dim[i] *= times[i];
        y = qn__reshape(g, qn__copy(g, view_as(g, flat, &wide), x->dtype), shape);
    }
    return y;
}

static inline qn_node *qn__roll(qn_graph *g, qn_node *x, int64_t shift, int dim)
{
    if (!buildable(g, x)) return g->bad;
    qn_error e = {0};
    int d;
    if (qn__dim_index("roll", &x->layout, dim, false, &d, &e) != QN_OK) return qn__stick(g, &e);
    const int64_t n = x->layout.dim[d];
    if (n == 0) return qn__copy(g, x, x->dtype);
    const int64_t by = (shift % n + n) % n;
    qn_node *parts[] = {qn__narrow(g, x, d, n - by, by), qn__narrow(g, x, d, 0, n - by)};
    return qn__cat(g, parts, 2, d);
}

static inline qn_node *qn__pad_like(qn_graph *g, qn_node *x, const int64_t *before, const int64_t *after,
                                    qn_pad_mode mode)
{
    if (!buildable(g, x)) return g->bad;
    qn_node *y = x;
    for (int i = 0; i < x->layout.rank; i++) {
        if (before[i] == 0 && after[i] == 0) continue;
        y = qn__index_select(g, y, i, qn__pad_index(g, x->layout.dim[i], before[i], after[i], mode));
    }
    return y == x ? qn__copy(g, x, x->dtype) : y;
}

/* Topology: ops, attributes, shapes, dtypes, edges, flags; not names, not buffers. */
static inline uint64_t qn__graph_hash(const qn_graph *g)
{
    uint64_t h = qn__hash(QN_HASH_INIT, &g->n_nodes, sizeof g->n_nodes);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        const int32_t head[4] = {(int32_t)n->op, (int32_t)n->dtype, (int32_t)n->flags, n->n_src};
        int32_t src[QN_MAX_SRC] = {0};
        qn_layout layout;
        qn__layout_canonical(&layout, &n->layout);
        for (int k = 0; k < n->n_src; k++) src[k] = n->src[k]->id;
        h = qn__hash(h, head, sizeof head);
        h = qn__hash(h, &layout, sizeof layout);
        h = qn__hash(h, src, sizeof src);
        h = qn__hash(h, n->attrs, qn__op_info(n->op)->attrs_bytes);
    }
    return h;
}

#endif
