/* SPDX-License-Identifier: MIT */
/* src/graph/build/index.c -- builders of indexing, joining, sorting, padding and random numbers. */
#include "graph/rules/rules.h"
#include <string.h>

static qn_node *refuse(qn_graph *g, qn_status status, qn_error *e, const char *what)
{
    (void)qn__prefix(e, status, "%s", what);
    return qn__stick(g, e);
}

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

static qn_node *view(qn_graph *g, qn_node *x, const qn_layout *layout)
{
    qn_view_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    qn__layout_canonical(&attrs.layout, layout);
    return qn__op(g, QN_OP_view, &attrs, &x, 1);
}

qn_node *qn__diagonal(qn_graph *g, qn_node *x, int64_t offset, int dim0, int dim1)
{
    if (!usable(g, x)) return g->bad;
    qn_error e = {0};
    const qn_layout *in = &x->layout;
    int d0, d1;
    qn_status status = qn__dim_index("diagonal", in, dim0, false, &d0, &e);
    if (status == QN_OK) status = qn__dim_index("diagonal", in, dim1, false, &d1, &e);
    if (status == QN_OK && d0 == d1) status = QN_FAIL(&e, invalid, "dimension %d of %s is named twice", d0, SHAPE(x));
    if (status != QN_OK) return refuse(g, status, &e, "diagonal");
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
    return view(g, x, &out);
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

qn_node *qn__stack(qn_graph *g, qn_node *const *x, int n, int dim)
{
    if (g->error.status != QN_OK) return g->bad;
    qn_error e = {0};
    qn_layout out;
    if (n < 1 || x[0] == NULL) {
        (void)QN_FAIL(&e, invalid, "stack: nothing to join");
        return qn__stick(g, &e);
    }
    const qn_status status = qn_layout_unsqueeze(&x[0]->layout, dim, &out, &e);
    if (status != QN_OK) return refuse(g, status, &e, "stack");
    const int d = dim < 0 ? dim + out.rank : dim;
    qn_shape shape = qn_layout_shape(&out);
    shape.dim[d] = n;
    for (int i = 0; i < n; i++) {
        if (x[i] != NULL && x[i]->dtype == x[0]->dtype && x[i]->layout.rank == x[0]->layout.rank) continue;
        (void)QN_FAIL(&e, invalid, "stack: source %d is not like source 0", i);
        return qn__stick(g, &e);
    }
    qn_node *y = qn__empty(g, x[0]->dtype, shape);
    if (!usable(g, y) || y == g->bad) return g->bad;
    const qn_layout whole = y->layout;
    for (int i = 0; i < n; i++) {
        qn_layout part;
        if (qn_layout_select(&whole, d, i, &part, &e) != QN_OK) return qn__stick(g, &e);
        y = qn__strided_update(g, y, x[i], &part, QN_COMBINE_set);
    }
    return y;
}

/* One dimension at a time: [.., 1, d, ..] expanded to [.., times, d, ..] and copied; ones cost nothing. */
qn_node *qn__repeat(qn_graph *g, qn_node *x, const int64_t *times, int n)
{
    if (!usable(g, x)) return g->bad;
    qn_error e = {0};
    if (n < x->layout.rank || n > QN_MAX_RANK) {
        (void)QN_FAIL(&e, invalid, "repeat: %d counts for %s, one a dimension expected", n, SHAPE(x));
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
        if (times[i] == 1 || !usable(g, y) || y == g->bad) continue;
        int64_t outer = 1, inner = 1;
        for (int k = 0; k < i; k++) outer *= shape.dim[k];
        for (int k = i; k < n; k++) inner *= shape.dim[k];
        qn_node *flat = qn__reshape(g, y, qn_shape_of(outer, 1, inner));
        if (!usable(g, flat) || flat == g->bad) return g->bad;
        qn_layout wide;
        if (qn_layout_expand(&flat->layout, &qn_shape_of(outer, times[i], inner), &wide, &e) != QN_OK)
            return qn__stick(g, &e);
        shape.dim[i] *= times[i];
        y = qn__reshape(g, qn__copy(g, view(g, flat, &wide), x->dtype), shape);
    }
    return y;
}

qn_node *qn__roll(qn_graph *g, qn_node *x, int64_t shift, int dim)
{
    if (!usable(g, x)) return g->bad;
    qn_error e = {0};
    int d;
    if (qn__dim_index("roll", &x->layout, dim, false, &d, &e) != QN_OK) return qn__stick(g, &e);
    const int64_t n = x->layout.dim[d];
    if (n == 0) return qn__copy(g, x, x->dtype);
    const int64_t by = (shift % n + n) % n;
    qn_node *parts[] = {qn__narrow(g, x, d, n - by, by), qn__narrow(g, x, d, 0, n - by)};
    return qn__cat(g, parts, 2, d);
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

qn_node *qn__pad_like(qn_graph *g, qn_node *x, const int64_t *before, const int64_t *after, qn_pad_mode mode)
{
    if (!usable(g, x)) return g->bad;
    qn_node *y = x;
    for (int i = 0; i < x->layout.rank; i++) {
        if (before[i] == 0 && after[i] == 0) continue;
        y = qn__index_select(g, y, i, qn__pad_index(g, x->layout.dim[i], before[i], after[i], mode));
    }
    return y == x ? qn__copy(g, x, x->dtype) : y;
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
