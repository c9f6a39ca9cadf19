/* SPDX-License-Identifier: MIT */
/* src/array/ops/views.c -- views as tensor functions. The layout functions of quern/tensor.h say what is possible;
 * applied to a row-major base of the same shape they also say where gradients go. */
#include "array/ops/apply.h"
#include "tensor/shape.h"
#include <quern/autograd.h>
#include <quern/functions.h>

#include <string.h>

/* Blocks stay whole: rows of blocks side by side. */
static bool cuts_blocks(const qn_tensor *t, const qn_layout *l)
{
    const int64_t block = qn_dtype_get(of(t)->storage->dtype)->block_elems;
    if (block == 1 || qn_layout_numel(l) == 0) return false;
    bool whole =
        l->rank > 0 && l->offset % block == 0 && l->dim[l->rank - 1] % block == 0 && l->stride[l->rank - 1] == 1;
    for (int i = 0; i + 1 < l->rank; i++) whole = whole && (l->dim[i] == 1 || l->stride[i] % block == 0);
    if (!whole)
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid,
                      "view: %s cannot be cut or transposed inside its blocks of %lld; dequantize it first",
                      qn_dtype_get(of(t)->storage->dtype)->name, (long long)block);
    return !whole;
}

/* Makes the view `layout` of t; `based` is the same view of a row-major base, wanted when a gradient flows. */
static qn_tensor *make(qn_tensor *t, const qn_layout *layout, const qn_layout *based)
{
    if (cuts_blocks(t, layout)) return NULL;
    qn_tensor *v = qn__tensor_alias(t, layout);
    if (v == NULL || !qn__tape_wanted(of(t)->ctx, &t, 1)) return v;
    qn_view_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.layout = *based;
    if (qn__tape_record(v, QN_OP_view, &attrs, &t, 1)) return v;
    qn_release(v);
    return NULL;
}

/* `call` fills `out` from `in`: once for the tensor's own layout, once for the base. */
#define VIEW(name, call) \
    do { \
        if (!LIVE(t) || !qn__tape_fresh(t)) return NULL; \
        qn_layout layout, based; \
        const qn_layout *in = &of(t)->layout; \
        qn_layout *out = &layout; \
        qn_error *err = qn__err(of(t)->ctx); \
        if ((call) != QN_OK) return refuse(err, name); \
        if (of(t)->grad_fn == NULL) return make(t, &layout, NULL); \
        const qn_shape shape_ = qn_layout_shape(&of(t)->layout); \
        qn_layout base; \
        if (qn_layout_contiguous(&shape_, &base, err) != QN_OK) return NULL; \
        in = &base; \
        out = &based; \
        if ((call) != QN_OK) return refuse(err, name); \
        return make(t, &layout, &based); \
    } while (0)

static qn_tensor *refuse(qn_error *err, const char *name)
{
    if (strncmp(err->text, name, strlen(name)) != 0) (void)qn__prefix(err, err->status, "%s", name);
    return NULL;
}

qn_tensor *qn_view_as(qn_tensor *t, qn_shape shape) { VIEW("view", qn_layout_view(in, &shape, out, err)); }
qn_tensor *qn_permute(qn_tensor *t, const int *dims, int n_dims)
{
    if (LIVE(t) && n_dims > 0 && !GIVEN(of(t)->ctx, dims, "dims")) return NULL;
    VIEW("permute", qn_layout_permute(in, dims, n_dims, out, err));
}
qn_tensor *qn_transpose(qn_tensor *t, int dim0, int dim1)
{
    VIEW("transpose", qn_layout_transpose(in, dim0, dim1, out, err));
}
qn_tensor *qn_squeeze(qn_tensor *t, int dim) { VIEW("squeeze", qn_layout_squeeze(in, dim, out, err)); }
qn_tensor *qn_unsqueeze(qn_tensor *t, int dim) { VIEW("unsqueeze", qn_layout_unsqueeze(in, dim, out, err)); }
qn_tensor *qn_expand(qn_tensor *t, qn_shape shape) { VIEW("expand", qn_layout_expand(in, &shape, out, err)); }
qn_tensor *qn_select(qn_tensor *t, int dim, int64_t index)
{
    VIEW("select", qn_layout_select(in, dim, index, out, err));
}

qn_tensor *qn_narrow(qn_tensor *t, int dim, int64_t start, int64_t length)
{
    VIEW("narrow", qn_layout_narrow(in, dim, start, length, out, err));
}

qn_tensor *qn_slice(qn_tensor *t, int dim, int64_t start, int64_t stop, int64_t step)
{
    VIEW("slice", qn_layout_slice(in, dim, start, stop, step, out, err));
}

static qn_status squeeze_all(const qn_layout *in, qn_layout *out)
{
    qn_layout l = {.offset = in->offset};
    for (int i = 0; i < in->rank; i++) {
        if (in->dim[i] == 1) continue;
        l.dim[l.rank] = in->dim[i];
        l.stride[l.rank++] = in->stride[i];
    }
    *out = l;
    return QN_OK;
}

qn_tensor *qn_squeeze_all(qn_tensor *t) { VIEW("squeeze", squeeze_all(in, out)); }

static qn_status diagonal(const qn_layout *in, int64_t offset, int dim0, int dim1, qn_layout *out, qn_error *err)
{
    int d0, d1;
    QN_TRY(qn__dim_index("diagonal", in, dim0, false, &d0, err));
    QN_TRY(qn__dim_index("diagonal", in, dim1, false, &d1, err));
    if (d0 == d1) return QN_FAIL(err, invalid, "diagonal: dimension %d is named twice", dim1);
    qn_layout l = {.offset = in->offset};
    for (int i = 0; i < in->rank; i++) {
        if (i == d0 || i == d1) continue;
        l.dim[l.rank] = in->dim[i];
        l.stride[l.rank++] = in->stride[i];
    }
    int64_t rows = in->dim[d0], columns = in->dim[d1];
    if (offset < -rows || offset > columns)
        rows = 0;
    else if (offset < 0)
        rows += offset;
    else
        columns -= offset;
    const int64_t size = rows < columns ? rows : columns;
    l.dim[l.rank] = size;
    l.stride[l.rank++] = in->stride[d0] + in->stride[d1];
    if (size > 0) l.offset += offset >= 0 ? offset * in->stride[d1] : -offset * in->stride[d0];
    *out = l;
    return QN_OK;
}

qn_tensor *qn_diagonal(qn_tensor *t, int64_t offset, int dim0, int dim1)
{
    VIEW("diagonal", diagonal(in, offset, dim0, dim1, out, err));
}

static qn_tensor *flipped(qn_tensor *t, int dim) { VIEW("flip", qn_layout_flip(in, dim, out, err)); }

/* Reversed views, then one copy, as PyTorch: what comes out shares nothing. */
qn_tensor *qn_flip(qn_tensor *t, const int *dims, int n_dims)
{
    if (!LIVE(t) || (n_dims > 0 && !GIVEN(of(t)->ctx, dims, "dims"))) return NULL;
    uint32_t seen = 0;
    for (int i = 0; i < n_dims; i++) {
        const int d = qn__dim_of("flip", t, dims[i]);
        if (d < 0) return NULL;
        if (seen >> d & 1) {
            (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "flip: dimension %d of %s is named twice", d, QN_TEXT_OF(t));
            return NULL;
        }
        seen |= UINT32_C(1) << d;
    }
    qn_tensor *v = qn_detach(t);
    if (v != NULL) qn__tape_share(v, t);
    for (int i = 0; i < n_dims && v != NULL; i++) {
        qn_tensor *next = flipped(v, dims[i]);
        qn_release(v);
        v = next;
    }
    qn_tensor *y = qn_clone(v);
    qn_release(v);
    return y;
}

qn_tensor *qn_reshape(qn_tensor *t, qn_shape shape)
{
    if (!LIVE(t)) return NULL;
    qn_layout l;
    if (qn_layout_view(&of(t)->layout, &shape, &l, NULL) == QN_OK || qn_layout_is_contiguous(&of(t)->layout))
        return qn_view_as(t, shape);
    qn_tensor *dense = qn_contiguous(t), *v = qn_view_as(dense, shape);
    qn_release(dense);
    return v;
}

qn_tensor *qn_flatten(qn_tensor *t, int first, int last)
{
    if (!LIVE(t)) return NULL;
    const int rank = of(t)->layout.rank > 0 ? of(t)->layout.rank : 1; /* a scalar flattens to one element */
    const int from = first < 0 ? first + rank : first, to = last < 0 ? last + rank : last;
    if (from < 0 || from >= rank || to < from || to >= rank) {
        char text[192];
        const qn_shape have = qn_layout_shape(&of(t)->layout);
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "flatten: dimensions %d to %d of %s", first, last,
                      qn_shape_print(&have, text, sizeof text));
        return NULL;
    }
    qn_shape shape = {0};
    for (int i = 0; i < from; i++) shape.dim[shape.rank++] = of(t)->layout.dim[i];
    shape.dim[shape.rank] = 1;
    for (int i = from; i <= to && i < of(t)->layout.rank; i++) shape.dim[shape.rank] *= of(t)->layout.dim[i];
    shape.rank++;
    for (int i = to + 1; i < of(t)->layout.rank; i++) shape.dim[shape.rank++] = of(t)->layout.dim[i];
    return qn_reshape(t, shape);
}

/* ---- parts ---- */

static int cut(const char *name, qn_tensor *t, int64_t size, int dim, qn_tensor **out, int capacity)
{
    const int d = dim < 0 ? dim + of(t)->layout.rank : dim;
    const int64_t have = d >= 0 && d < of(t)->layout.rank ? of(t)->layout.dim[d] : -1;
    if (have < 0 || size < 0 || (size == 0 && have > 0)) {
        char text[192];
        const qn_shape shape = qn_layout_shape(&of(t)->layout);
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "%s: parts of %lld along dimension %d of %s", name, (long long)size,
                      dim, qn_shape_print(&shape, text, sizeof text));
        return -1;
    }
    const int64_t n = have == 0 ? 1 : (have - 1) / size + 1;
    if (n > capacity) {
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "%s: %lld parts, there is room for %d", name, (long long)n,
                      capacity);
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t left = have - i * size;
        out[i] = qn_narrow(t, d, i * size, left < size ? left : size);
        if (out[i] != NULL) continue;
        while (i-- > 0) qn_release(out[i]);
        return -1;
    }
    return (int)n;
}

int qn_split(qn_tensor *t, int64_t size, int dim, qn_tensor **out, int capacity)
{
    return LIVE(t) && (capacity <= 0 || GIVEN(of(t)->ctx, out, "out")) ? cut("split", t, size, dim, out, capacity) : -1;
}

static int bad_sizes(const qn_tensor *t, const char *what, int64_t number, int dim)
{
    (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "split_sizes: %s %lld for dimension %d of %s", what, (long long)number,
                  dim, QN_TEXT_OF(t));
    return -1;
}

int qn_split_sizes(qn_tensor *t, const int64_t *sizes, int n, int dim, qn_tensor **out)
{
    if (!LIVE(t) || (n > 0 && (!GIVEN(of(t)->ctx, sizes, "sizes") || !GIVEN(of(t)->ctx, out, "out")))) return -1;
    const int d = qn__dim_of("split_sizes", t, dim);
    if (d < 0) return -1;
    const int64_t have = of(t)->layout.rank > 0 ? of(t)->layout.dim[d] : -1; /* a scalar has no parts */
    int64_t sum = 0, at = 0;
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0) return bad_sizes(t, "a size of", sizes[i], d);
        if (__builtin_add_overflow(sum, sizes[i], &sum)) sum = INT64_MAX;
    }
    if (n < 0 || sum != have) return bad_sizes(t, "sizes that add up to", sum, d);
    for (int i = 0; i < n; at += sizes[i++]) {
        out[i] = qn_narrow(t, d, at, sizes[i]);
        if (out[i] != NULL) continue;
        while (i-- > 0) qn_release(out[i]);
        return -1;
    }
    return n;
}

int qn_chunk(qn_tensor *t, int n, int dim, qn_tensor **out, int capacity)
{
    if (!LIVE(t) || (capacity > 0 && !GIVEN(of(t)->ctx, out, "out"))) return -1;
    const int64_t have = qn_dim(t, dim);
    if (n < 1 || have < 0) {
        char text[192];
        const qn_shape shape = qn_layout_shape(&of(t)->layout);
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "chunk: %d parts along dimension %d of %s", n, dim,
                      qn_shape_print(&shape, text, sizeof text));
        return -1;
    }
    if (have > 0) return cut("chunk", t, (have - 1) / n + 1, dim, out, capacity);
    if (n > capacity) { /* PyTorch gives n empty parts */
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "chunk: %d parts, there is room for %d", n, capacity);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        out[i] = qn_narrow(t, dim, 0, 0);
        if (out[i] != NULL) continue;
        while (i-- > 0) qn_release(out[i]);
        return -1;
    }
    return n;
}
