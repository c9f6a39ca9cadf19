/* SPDX-License-Identifier: MIT */
/* src/array/ops/select.c -- indexing and order on handles. */
#include "array/ops/apply.h"

#include <string.h>

/* `strict` is the public name of the operation. */
static qn_tensor *by_index(qn_op op, qn_strict strict, qn_combine mode, bool in_place, int dim, qn_tensor *x,
                           qn_tensor *index, qn_tensor *src, int n)
{
    const char *name = qn__strict_name((int32_t)strict);
    qn_tensor *all[] = {x, index, src};
    if (qn__same_context(name, all, n) == NULL) return NULL;
    const int d = qn__dim_of(name, x, dim);
    if (d < 0) return NULL;
    const qn_index_attrs attrs = {.dim = d, .mode = (int32_t)mode, .strict = (int32_t)strict};
    return qn__plain(op, &attrs, (qn_target){in_place ? x : NULL, true}, all, n);
}

qn_tensor *qn_gather(qn_tensor *x, int dim, qn_tensor *index)
{
    return by_index(QN_OP_gather, QN_STRICT_gather, 0, false, dim, x, index, NULL, 2);
}

qn_tensor *qn_scatter(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src)
{
    return by_index(QN_OP_scatter, QN_STRICT_scatter, QN_COMBINE_set, false, dim, x, index, src, 3);
}

qn_tensor *qn_scatter_(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src)
{
    return by_index(QN_OP_scatter, QN_STRICT_scatter, QN_COMBINE_set, true, dim, x, index, src, 3);
}

qn_tensor *qn_scatter_add(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src)
{
    return by_index(QN_OP_scatter, QN_STRICT_scatter_add, QN_COMBINE_add, false, dim, x, index, src, 3);
}

qn_tensor *qn_scatter_add_(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src)
{
    return by_index(QN_OP_scatter, QN_STRICT_scatter_add, QN_COMBINE_add, true, dim, x, index, src, 3);
}

qn_tensor *qn_index_select(qn_tensor *x, int dim, qn_tensor *index)
{
    return by_index(QN_OP_index_select, QN_STRICT_index_select, 0, false, dim, x, index, NULL, 2);
}

static qn_tensor *index_add(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src, double alpha, bool in_place)
{
    qn_tensor *scaled = alpha == 1 ? src : qn_mul_number(src, alpha);
    qn_tensor *y = by_index(QN_OP_index_add, QN_STRICT_index_add, QN_COMBINE_add, in_place, dim, x, index, scaled, 3);
    if (scaled != src) qn_release(scaled);
    return y;
}

qn_tensor *qn_index_add(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src, double alpha)
{
    return index_add(x, dim, index, src, alpha, false);
}

qn_tensor *qn_index_add_(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src, double alpha)
{
    return index_add(x, dim, index, src, alpha, true);
}

qn_tensor *qn_index_copy(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src)
{
    return by_index(QN_OP_index_add, QN_STRICT_index_copy, QN_COMBINE_set, false, dim, x, index, src, 3);
}

qn_tensor *qn_index_copy_(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src)
{
    return by_index(QN_OP_index_add, QN_STRICT_index_copy, QN_COMBINE_set, true, dim, x, index, src, 3);
}

/* ---- a slice, written in place ---- */

/* Does one update node do it, of which devices have a kernel that neither adds nor converts? Otherwise a copy or a sum
 * into a narrowed view does, but not for block formats, of which the recorder says what it does not take. */
static bool is_one_node(const qn_tensor *t, const qn_tensor *src, bool accumulate)
{
    const qn_slot *to = of(t), *from = of(src);
    const qn_dtype dtype = to->storage->dtype;
    if (qn_dtype_get(dtype)->class_ == QN_CLASS_block) return true;
    if (!to->ctx->grad_off && (to->grad_fn != NULL || from->grad_fn != NULL)) return false;
    if (to->layout.rank == 0 || to->layout.stride[to->layout.rank - 1] != 1) return false;
    if (!qn__place_is_host(to->ctx, to->storage->place) && (accumulate || dtype != QN_DTYPE_F32)) return false;
    return from->storage->dtype == QN_DTYPE_F32 && qn__is_real(dtype) && !(accumulate && dtype == QN_DTYPE_F64);
}

qn_tensor *qn_slice_update_(qn_tensor *t, int dim, int64_t start, qn_tensor *src, bool accumulate)
{
    qn_context *ctx = qn__same_context("slice_update", (qn_tensor *[]){t, src}, 2);
    const int d = ctx != NULL ? qn__dim_of("slice_update", t, dim) : -1;
    if (d < 0 || !qn__make_room(ctx) || !qn__tape_writable(t, "slice_update", &src, 1)) return NULL;
    if (is_one_node(t, src, accumulate)) {
        qn_slice_attrs attrs;
        memset(&attrs, 0, sizeof attrs);
        attrs.dim = d;
        attrs.accumulate = accumulate;
        const int64_t size = of(t)->layout.rank > 0 ? of(t)->layout.dim[d] : 0;
        attrs.start = start < 0 && start >= -size ? start + size : start; /* as qn_narrow takes it */
        return qn__update(t, QN_OP_slice_update, &attrs, &src, 1) ? t : NULL;
    }
    const int64_t n = d < of(src)->layout.rank ? of(src)->layout.dim[d] : -1;
    qn_tensor *part = n >= 0 ? qn_narrow(t, d, start, n) : NULL, *done = NULL;
    if (n < 0) {
        (void)QN_FAIL(qn__err(ctx), invalid, "slice_update: %s into dimension %d of %s: as many dimensions expected",
                      QN_TEXT_OF(src), d, QN_TEXT_OF(t));
    }
    if (part != NULL) done = accumulate ? qn_add_(part, src) : qn_copy_(part, src);
    qn_release(part);
    return done != NULL ? t : NULL;
}

/* ---- several indices: one index into the first dimensions taken together ---- */

typedef struct places {
    qn_tensor *flat;         /* the places as a vector */
    qn_shape folded, result; /* x with its first n dimensions as one; ids' shape and the others */
} places;

static bool find_places(qn_strict strict, qn_tensor *x, qn_tensor *const *indices, int n, places *out)
{
    const char *name = qn__strict_name((int32_t)strict);
    memset(out, 0, sizeof *out);
    if (!qn__live(x, name)) return false;
    if (indices == NULL || n < 1 || n > QN_MAX_SRC || n > of(x)->layout.rank) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: %d indices for %s", name, n, QN_TEXT_OF(x));
        return false;
    }
    qn_flat_attrs attrs = {.strict = (int32_t)strict};
    qn_shape *folded = &out->folded, *result = &out->result;
    folded->rank = 1 + of(x)->layout.rank - n;
    folded->dim[0] = 1;
    for (int i = 0; i < n; i++) folded->dim[0] *= attrs.size[i] = of(x)->layout.dim[i];
    for (int i = n; i < of(x)->layout.rank; i++) folded->dim[1 + i - n] = of(x)->layout.dim[i];
    qn_tensor *flat = qn__plain(QN_OP_flat_index, &attrs, (qn_target){0}, indices, n);
    if (flat == NULL) return false;
    *result = qn_layout_shape(&of(flat)->layout);
    if (result->rank + folded->rank - 1 > QN_MAX_RANK) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: %s indexed with %s has more than %d dimensions", name,
                      QN_TEXT_OF(x), QN_TEXT_OF(flat), QN_MAX_RANK);
        qn_release(flat);
        return false;
    }
    for (int i = 1; i < folded->rank; i++) result->dim[result->rank++] = folded->dim[i];
    qn_tensor *there = qn__number_beside(flat, x);
    out->flat = qn_view_as(there, qn_shape_of(qn_numel(flat)));
    if (there != flat) qn_release(there);
    qn_release(flat);
    return out->flat != NULL;
}

qn_tensor *qn_index(qn_tensor *x, qn_tensor *const *indices, int n)
{
    places at;
    if (!find_places(QN_STRICT_index, x, indices, n, &at)) return NULL;
    qn_tensor *folded = qn_reshape(x, at.folded),
              *rows = by_index(QN_OP_index_select, QN_STRICT_index, 0, false, 0, folded, at.flat, NULL, 2);
    qn_tensor *y = rows != NULL ? qn_view_as(rows, at.result) : NULL;
    qn_release(folded);
    qn_release(rows);
    qn_release(at.flat);
    return y;
}

/* index_put by folding: a result of x's shape. */
static qn_tensor *put(qn_tensor *x, qn_tensor *const *indices, int n, qn_tensor *values, bool accumulate)
{
    places at;
    if (qn__same_context("index_put", (qn_tensor *[]){x, values}, 2) == NULL) return NULL;
    if (!find_places(QN_STRICT_index_put, x, indices, n, &at)) return NULL;
    qn_shape rows_shape = at.folded;
    rows_shape.dim[0] = qn_numel(at.flat);
    qn_tensor *there = qn__number_beside(values, x), *wide = qn_expand(there, at.result),
              *rows = qn_reshape(wide, rows_shape), *folded = qn_reshape(x, at.folded);
    qn_tensor *done = by_index(QN_OP_index_add, QN_STRICT_index_put, accumulate ? QN_COMBINE_add : QN_COMBINE_set,
                               false, 0, folded, at.flat, rows, 3);
    qn_tensor *y = done != NULL ? qn_view_as(done, qn_layout_shape(&of(x)->layout)) : NULL;
    if (there != values) qn_release(there);
    qn_release(wide);
    qn_release(rows);
    qn_release(folded);
    qn_release(done);
    qn_release(at.flat);
    return y;
}

qn_tensor *qn_index_put(qn_tensor *x, qn_tensor *const *indices, int n, qn_tensor *values, bool accumulate)
{
    return put(x, indices, n, values, accumulate);
}

qn_tensor *qn_index_put_(qn_tensor *x, qn_tensor *const *indices, int n, qn_tensor *values, bool accumulate)
{
    qn_tensor *y = put(x, indices, n, values, accumulate), *done = qn_copy_(x, y);
    qn_release(y);
    return done;
}

/* Rows of a table in a block format, as F32; flat_index looks whether there are such rows, of which none counts from
 * the end. */
static qn_tensor *unpacked_rows(qn_tensor *table, qn_tensor *indices)
{
    const qn_flat_attrs attrs = {.size = {of(table)->layout.dim[0]}, .strict = QN_STRICT_embedding, .from_start = 1};
    qn_tensor *checked = qn__plain(QN_OP_flat_index, &attrs, (qn_target){0}, &indices, 1),
              *ids = qn_to(checked, QN_DTYPE_I32), *rows = NULL;
    if (ids != NULL) rows = qn__plain(QN_OP_get_rows, NULL, (qn_target){0}, (qn_tensor *[]){table, ids}, 2);
    qn_release(checked);
    qn_release(ids);
    return rows;
}

qn_tensor *qn_embedding(qn_tensor *table, qn_tensor *indices)
{
    if (!LIVE(table) || !LIVE(indices)) return NULL;
    if (of(table)->layout.rank != 2) {
        (void)QN_FAIL(qn__err(of(table)->ctx), invalid, "embedding: the table is %s, a matrix expected",
                      QN_TEXT_OF(table));
        return NULL;
    }
    qn_shape shape = qn_layout_shape(&of(indices)->layout);
    if (shape.rank >= QN_MAX_RANK) {
        (void)QN_FAIL(qn__err(of(table)->ctx), invalid, "embedding: indices %s, at most %d dimensions expected",
                      QN_TEXT_OF(indices), QN_MAX_RANK - 1);
        return NULL;
    }
    const bool packed = qn_dtype_get(of(table)->storage->dtype)->class_ == QN_CLASS_block;
    qn_tensor *there = qn__number_beside(indices, table), *flat = qn_reshape(there, qn_shape_of(qn_numel(indices))),
              *rows;
    if (packed)
        rows = unpacked_rows(table, flat);
    else
        rows = by_index(QN_OP_index_select, QN_STRICT_embedding, 0, false, 0, table, flat, NULL, 2);
    shape.dim[shape.rank++] = of(table)->layout.dim[1];
    qn_tensor *y = rows != NULL ? qn_view_as(rows, shape) : NULL;
    if (there != indices) qn_release(there);
    qn_release(flat);
    qn_release(rows);
    return y;
}

/* ---- order ---- */

static qn_tensor *places_of(qn_op op, const char *name, qn_tensor *x, int64_t k, int dim, bool descending)
{
    const int d = LIVE(x) ? qn__dim_of(name, x, dim) : -1;
    return d < 0 ? NULL
                 : qn__plain(op, &(qn_sort_attrs){.k = k, .dim = d, .descending = descending}, (qn_target){0}, &x, 1);
}

/* The values at those places, which go to *indices or end. */
static qn_tensor *values_at(qn_tensor *x, int dim, qn_tensor *at, qn_tensor **indices)
{
    if (indices != NULL) *indices = NULL;
    qn_tensor *y = qn_gather(x, dim, at);
    if (y != NULL && indices != NULL)
        *indices = at;
    else
        qn_release(at);
    return y;
}

qn_tensor *qn_argsort(qn_tensor *x, int dim, bool descending)
{
    return places_of(QN_OP_argsort, "argsort", x, 0, dim, descending);
}

qn_tensor *qn_sort(qn_tensor *x, int dim, bool descending, qn_tensor **indices)
{
    return values_at(x, dim, places_of(QN_OP_argsort, "sort", x, 0, dim, descending), indices);
}

qn_tensor *qn_topk(qn_tensor *x, int64_t k, int dim, bool largest, qn_tensor **indices)
{
    return values_at(x, dim, places_of(QN_OP_topk, "topk", x, k, dim, largest), indices);
}
