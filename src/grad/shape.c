/* SPDX-License-Identifier: MIT */
/* src/grad/shape.c -- gradients of views and copies, and the shape work that all others need. */
#include "grad/rows.h"

#include <stdlib.h>

/* ---- helpers ---- */

static bool same_shape(const qn_node *x, const qn_shape *shape)
{
    const qn_shape have = qn_layout_shape(&x->layout);
    return qn_shape_equal(&have, shape);
}

static qn_node *view(qn_graph *g, qn_node *x, const qn_layout *layout)
{
    return qn__op(g, QN_OP_view, &(qn_view_attrs){.layout = *layout}, &x, 1);
}

qn_node *qn__grad_dense(qn_graph *g, qn_node *x)
{
    return qn_layout_is_contiguous(&x->layout) ? x : qn__copy(g, x, x->dtype);
}

qn_node *qn__grad_reshape(qn_graph *g, qn_node *x, const qn_shape *shape)
{
    qn_layout l;
    if (same_shape(x, shape)) return x;
    if (qn_layout_view(&x->layout, shape, &l, NULL) != QN_OK) x = qn__copy(g, x, x->dtype);
    return qn__reshape(g, x, *shape);
}

qn_node *qn__grad_transpose(qn_graph *g, qn_node *x, int dim0, int dim1)
{
    qn_layout l;
    if (g->error.status != QN_OK) return g->bad;
    return qn_layout_transpose(&x->layout, dim0, dim1, &l, &g->error) == QN_OK ? view(g, x, &l) : g->bad;
}

qn_node *qn__grad_expand(qn_graph *g, qn_node *x, const qn_shape *shape)
{
    qn_layout l;
    if (g->error.status != QN_OK) return g->bad;
    if (same_shape(x, shape)) return x;
    return qn_layout_expand(&x->layout, shape, &l, &g->error) == QN_OK ? view(g, x, &l) : g->bad;
}

qn_node *qn__grad_flip(qn_graph *g, qn_node *x, int dim)
{
    qn_layout l;
    if (g->error.status != QN_OK) return g->bad;
    return qn_layout_flip(&x->layout, dim, &l, &g->error) == QN_OK ? view(g, x, &l) : g->bad;
}

/* Over the dimensions whose bit is set; they stay, of size 1. */
static qn_node *sum_dims(qn_graph *g, qn_node *x, uint32_t dims)
{
    if (dims == 0) return x;
    return qn__op(g, QN_OP_sum, &(qn_reduce_attrs){.dims = dims, .keep = 1}, &x, 1);
}

qn_node *qn__grad_sum_to(qn_graph *g, qn_node *x, const qn_shape *shape)
{
    if (g->error.status != QN_OK || same_shape(x, shape)) return x;
    const int extra = x->layout.rank - shape->rank;
    uint32_t dims = 0;
    for (int d = 0; d < x->layout.rank; d++) {
        if (d < extra || (shape->dim[d - extra] == 1 && x->layout.dim[d] != 1)) dims |= 1u << d;
    }
    return qn__grad_reshape(g, sum_dims(g, x, dims), shape);
}

/* ---- rows ---- */

void qn__grad_copy(qn_grad_task *t)
{
    t->dx[0] = t->dy->dtype == t->dtype[0] ? t->dy : qn__copy(t->g, t->dy, t->dtype[0]);
}

/* The dimensions of `l` by falling stride; false when they do not cover a base of n elements exactly once. */
static bool covers(const qn_layout *l, int64_t n, int *order)
{
    for (int i = 0; i < l->rank; i++) {
        int at = i;
        for (; at > 0 && llabs(l->stride[order[at - 1]]) < llabs(l->stride[i]); at--) order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t want = 1;
    for (int i = l->rank - 1; i >= 0; i--) {
        const int d = order[i];
        if (l->dim[d] == 1) continue;
        if (llabs(l->stride[d]) != want) return false;
        want *= l->dim[d];
    }
    return want == n;
}

/* attrs: the view of a row-major base of the source's shape. Elements that the view shows several times add up; those
 * that it does not show get zero. */
void qn__grad_view(qn_grad_task *t)
{
    qn_graph *g = t->g;
    qn_layout l = ((const qn_view_attrs *)t->attrs)->layout;
    const int64_t n = qn_shape_numel(&t->shape[0]);
    int order[QN_MAX_RANK];
    uint32_t repeated = 0;
    qn_node *dy = t->dy;
    for (int d = 0; d < l.rank; d++) {
        if (l.stride[d] != 0 || l.dim[d] == 1) continue;
        repeated |= 1u << d;
        l.dim[d] = 1;
    }
    dy = sum_dims(g, dy, repeated);
    if (!covers(&l, n, order)) {
        qn_node *zeros = qn__full(g, dy->dtype, &t->shape[0], qn__value(0.0));
        t->dx[0] = qn__strided_update(g, zeros, dy, &l, QN_COMBINE_set);
        return;
    }
    for (int d = 0; d < l.rank && g->error.status == QN_OK; d++) {
        if (l.stride[d] < 0 && l.dim[d] > 1) dy = qn__grad_flip(g, dy, d);
    }
    t->dx[0] = qn__grad_reshape(g, qn__permute(g, dy, order, l.rank), &t->shape[0]);
}
