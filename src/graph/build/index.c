/* SPDX-License-Identifier: MIT */
/* src/graph/build/index.c -- builders of indexing, joining, sorting, padding and random numbers. */
#include "graph/rules/rules.h"
#include <string.h>

static bool usable(const qn_graph *g, const qn_node *n) { return g->error.status == QN_OK && n != NULL; }

/* ---- reading ---- */

qn_node *qn__gather(qn_graph *g, qn_node *x, int dim, qn_node *ids)
{
    return qn__op(g, QN_OP_gather, &(qn_index_attrs){.dim = rule_from_end(g, x, dim)}, (qn_node *[]){x, ids}, 2);
}

qn_node *qn__index_select(qn_graph *g, qn_node *x, int dim, qn_node *ids)
{
    return qn__op(g, QN_OP_index_select, &(qn_index_attrs){.dim = rule_from_end(g, x, dim)}, (qn_node *[]){x, ids}, 2);
}

qn_node *qn__flat_index(qn_graph *g, qn_node *const *ids, const int64_t *size, int n)
{
    qn_flat_attrs attrs = {.strict = QN_STRICT_not};
    for (int i = 0; i < n && i < QN_MAX_SRC; i++) attrs.size[i] = size[i];
    return qn__op(g, QN_OP_flat_index, &attrs, ids, n);
}

qn_node *qn__tri(qn_graph *g, qn_node *x, int64_t diagonal, bool upper)
{
    return qn__op(g, QN_OP_tri, &(qn_tri_attrs){.diagonal = diagonal, .upper = upper}, &x, 1);
}

/* ---- writing ---- */

qn_node *qn__scatter(qn_graph *g, qn_node *x, int dim, qn_node *ids, qn_node *src, qn_combine mode)
{
    const qn_index_attrs attrs = {.dim = rule_from_end(g, x, dim), .mode = (int32_t)mode};
    return qn__op(g, QN_OP_scatter, &attrs, (qn_node *[]){x, ids, src}, 3);
}

qn_node *qn__index_add(qn_graph *g, qn_node *x, int dim, qn_node *ids, qn_node *src, qn_combine mode)
{
    const qn_index_attrs attrs = {.dim = rule_from_end(g, x, dim), .mode = (int32_t)mode};
    return qn__op(g, QN_OP_index_add, &attrs, (qn_node *[]){x, ids, src}, 3);
}

qn_node *qn__strided_update(qn_graph *g, qn_node *dst, qn_node *x, const qn_layout *layout, qn_combine mode)
{
    qn_strided_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    qn__layout_canonical(&attrs.layout, layout);
    attrs.mode = (int32_t)mode;
    return qn__op(g, QN_OP_strided_update, &attrs, (qn_node *[]){dst, x}, 2);
}

qn_node *qn__assign(qn_graph *g, qn_node *dst, qn_node *x)
{
    return qn__op(g, QN_OP_assign, NULL, (qn_node *[]){dst, x}, 2);
}

/* ---- joining ---- */

qn_node *qn__empty(qn_graph *g, qn_dtype dtype, qn_shape shape)
{
    /* No two may be taken for equal, or the writes into one would copy it first. */
    qn_empty_attrs attrs = {.rank = shape.rank, .dtype = (int32_t)dtype, .serial = g->n_nodes};
    for (int i = 0; i < shape.rank && i < QN_MAX_RANK; i++) attrs.dim[i] = shape.dim[i];
    return qn__op(g, QN_OP_empty, &attrs, NULL, 0);
}

static qn_status check_cat(qn_node *const *x, int n, int dim, int *d, int64_t *total, qn_error *err)
{
    if (n < 1) return QN_FAIL(err, invalid, "cat: nothing to join");
    for (int i = 0; i < n; i++)
        if (x[i] == NULL) return QN_FAIL(err, invalid, "cat: source %d is missing", i);
    const qn_node *first = x[0];
    QN_TRY(qn__dim_index("cat", &first->layout, dim, false, d, err));
    *total = 0;
    for (int i = 0; i < n; i++) {
        const qn_layout *l = &x[i]->layout;
        bool fits = l->rank == first->layout.rank;
        for (int k = 0; k < l->rank && fits; k++) fits = k == *d || l->dim[k] == first->layout.dim[k];
        if (!fits)
            return QN_FAIL(err, invalid, "cat: %s and %s differ in more than dimension %d", SHAPE(first), SHAPE(x[i]),
                           *d);
        if (x[i]->dtype != first->dtype) {
            return QN_FAIL(err, invalid, "cat: %s and %s, one dtype expected", DTYPE(first->dtype), DTYPE(x[i]->dtype));
        }
        if (__builtin_add_overflow(*total, l->dim[*d], total))
            return QN_FAIL(err, limit, "cat: more than 2^63 elements");
    }
    return QN_OK;
}

qn_node *qn__cat(qn_graph *g, qn_node *const *x, int n, int dim)
{
    if (g->error.status != QN_OK) return g->bad;
    qn_error e = {0};
    int d = 0;
    int64_t total = 0, at = 0;
    if (check_cat(x, n, dim, &d, &total, &e) != QN_OK) return qn__stick(g, &e);
    qn_shape shape = qn_layout_shape(&x[0]->layout);
    shape.dim[d] = total;
    qn_node *y = qn__empty(g, x[0]->dtype, shape);
    if (!usable(g, y) || y == g->bad) return g->bad;
    const qn_layout whole = y->layout;
    for (int i = 0; i < n; i++) {
        qn_layout part = whole;
        part.dim[d] = x[i]->layout.dim[d];
        part.offset = at * whole.stride[d];
        at += part.dim[d];
        if (qn_layout_numel(&part) > 0) y = qn__strided_update(g, y, x[i], &part, QN_COMBINE_set);
    }
    return y;
}

/* ---- order ---- */

qn_node *qn__argsort(qn_graph *g, qn_node *x, int dim, bool descending)
{
    return qn__op(g, QN_OP_argsort, &(qn_sort_attrs){.dim = rule_from_end(g, x, dim), .descending = descending}, &x, 1);
}

qn_node *qn__topk(qn_graph *g, qn_node *x, int64_t k, int dim, bool largest)
{
    return qn__op(g, QN_OP_topk, &(qn_sort_attrs){.k = k, .dim = rule_from_end(g, x, dim), .descending = largest}, &x,
                  1);
}

/* ---- padding ---- */

qn_node *qn__pad(qn_graph *g, qn_node *x, const int64_t *before, const int64_t *after, double value)
{
    qn_pad_attrs attrs = {.value = value};
    for (int i = 0; usable(g, x) && i < x->layout.rank; i++) {
        attrs.before[i] = before[i];
        attrs.after[i] = after[i];
    }
    return qn__op(g, QN_OP_pad, &attrs, &x, 1);
}

qn_node *qn__pad_index(qn_graph *g, int64_t n, int64_t before, int64_t after, qn_pad_mode mode)
{
    const qn_pad_index_attrs attrs = {.n = n, .before = before, .after = after, .mode = (int32_t)mode};
    return qn__op(g, QN_OP_pad_index, &attrs, NULL, 0);
}

/* ---- random numbers ---- */

qn_node *qn__random(qn_graph *g, qn_node *state, qn_random_kind kind, qn_dtype dtype, qn_shape shape, double a,
                    double b, int stream)
{
    qn_random_attrs attrs = {
        .a = a, .b = b, .rank = shape.rank, .dtype = (int32_t)dtype, .kind = (int32_t)kind, .stream = stream};
    for (int i = 0; i < shape.rank && i < QN_MAX_RANK; i++) attrs.dim[i] = shape.dim[i];
    return qn__op(g, QN_OP_random, &attrs, &state, 1);
}
