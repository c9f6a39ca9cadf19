/* SPDX-License-Identifier: MIT */
/* src/tensor/view.c -- views: a new layout over the same elements. Every function works on a copy and writes `out`
 * last, so `in` and `out` may be one object and a failure leaves `out` as it was. */
#include "base/error.h"
#include "tensor/shape.h"
#include <string.h>

/* ---- view ---- */

/* The -1 of `shape`, if there is one, replaced by what makes the element counts agree. */
static qn_status infer(const qn_layout *in, const qn_shape *shape, qn_shape *out, qn_error *err)
{
    char from[QN_SHAPE_TEXT], to[QN_SHAPE_TEXT];
    qn_shape r = {.rank = shape->rank};
    int unknown = -1;
    if (shape->rank < 0 || shape->rank > QN_MAX_RANK) {
        return QN_FAIL(err, invalid, "view: rank %d is out of range, 0 to %d were expected", shape->rank, QN_MAX_RANK);
    }
    for (int i = 0; i < r.rank; i++) {
        r.dim[i] = shape->dim[i];
        if (r.dim[i] != -1) continue;
        if (unknown >= 0) {
            return QN_FAIL(err, invalid, "view: %s has more than one -1", qn_shape_print(shape, to, sizeof to));
        }
        unknown = i;
        r.dim[i] = 1;
    }
    const int64_t have = qn_layout_numel(in), want = qn__shape_ok(&r) ? qn_shape_numel(&r) : -1;
    if (unknown >= 0 && want == 0 && have == 0) {
        return QN_FAIL(err, invalid, "view: the -1 of %s could be anything, because the tensor %s is empty",
                       qn_shape_print(shape, to, sizeof to), qn__layout_print(in, from));
    }
    if (unknown >= 0 && want > 0 && have % want == 0) {
        r.dim[unknown] = have / want;
    } else if (want != have) {
        return QN_FAIL(err, invalid, "view: %s with %lld elements cannot become %s", qn__layout_print(in, from),
                       (long long)have, qn_shape_print(shape, to, sizeof to));
    }
    *out = r;
    return QN_OK;
}

/* A run: neighbouring dimensions that together step through memory evenly, as one dimension of `size` would. */
typedef struct run {
    int64_t size, stride;
} run;

/* Runs from the innermost outwards; dimensions of size 1 vanish. */
static int find_runs(const qn_layout *in, run runs[QN_MAX_RANK])
{
    int n = 0;
    for (int i = in->rank - 1; i >= 0; i--) {
        if (in->dim[i] == 1) continue;
        int64_t next;
        if (n > 0 && !__builtin_mul_overflow(runs[n - 1].size, runs[n - 1].stride, &next) && next == in->stride[i]) {
            runs[n - 1].size *= in->dim[i];
        } else {
            runs[n++] = (run){in->dim[i], in->stride[i]};
        }
    }
    return n;
}

/* Each new dimension is cut from one run; false when it would have to reach over two. */
static bool cut_runs(const run *runs, int n_runs, const qn_shape *shape, int64_t stride[QN_MAX_RANK])
{
    int r = 0;
    int64_t taken = 1; /* of run r */
    for (int i = shape->rank - 1; i >= 0; i--) {
        const int64_t d = shape->dim[i];
        if (r < n_runs && taken == runs[r].size && d != 1) {
            r++;
            taken = 1;
        }
        if (r == n_runs) { /* only ones are left: any stride does, a dense one looks best */
            if (n_runs == 0 || __builtin_mul_overflow(runs[n_runs - 1].size, runs[n_runs - 1].stride, &stride[i]))
                stride[i] = 1;
            continue;
        }
        if (runs[r].size / taken % d != 0) return false;
        stride[i] = runs[r].stride * taken;
        taken *= d;
    }
    return true;
}

qn_status qn_layout_view(const qn_layout *in, const qn_shape *shape, qn_layout *out, qn_error *err)
{
    qn_shape to;
    qn_layout r;
    QN_TRY(qn__layout_check("view", in, err));
    QN_TRY(infer(in, shape, &to, err));
    QN_TRY(qn_layout_contiguous(&to, &r, err));
    r.offset = in->offset;
    if (qn_layout_numel(in) > 0) {
        run runs[QN_MAX_RANK];
        const int n_runs = find_runs(in, runs);
        if (!cut_runs(runs, n_runs, &to, r.stride)) {
            char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT], c[QN_SHAPE_TEXT];
            qn_shape strides = {.rank = in->rank};
            memcpy(strides.dim, in->stride, sizeof strides.dim);
            return QN_FAIL(err, invalid, "view: %s with strides %s cannot become %s without a copy, use reshape",
                           qn__layout_print(in, a), qn_shape_print(&strides, b, sizeof b),
                           qn_shape_print(&to, c, sizeof c));
        }
    }
    *out = r;
    return QN_OK;
}

/* ---- order and number of dimensions ---- */

qn_status qn_layout_permute(const qn_layout *in, const int *dims, int n_dims, qn_layout *out, qn_error *err)
{
    char text[QN_SHAPE_TEXT];
    QN_TRY(qn__layout_check("permute", in, err));
    if (n_dims != in->rank) {
        return QN_FAIL(err, invalid, "permute: %d dimensions were given for %s of rank %d", n_dims,
                       qn__layout_print(in, text), in->rank);
    }
    qn_layout r = {.rank = in->rank, .offset = in->offset};
    bool seen[QN_MAX_RANK] = {false};
    for (int i = 0; i < n_dims; i++) {
        int d;
        QN_TRY(qn__dim_index("permute", in, dims[i], false, &d, err));
        if (seen[d])
            return QN_FAIL(err, invalid, "permute: dimension %d of %s is named twice", d, qn__layout_print(in, text));
        seen[d] = true;
        r.dim[i] = in->dim[d];
        r.stride[i] = in->stride[d];
    }
    *out = r;
    return QN_OK;
}

qn_status qn_layout_transpose(const qn_layout *in, int dim0, int dim1, qn_layout *out, qn_error *err)
{
    int a, b;
    QN_TRY(qn__layout_check("transpose", in, err));
    QN_TRY(qn__dim_index("transpose", in, dim0, true, &a, err));
    QN_TRY(qn__dim_index("transpose", in, dim1, true, &b, err));
    qn_layout r = *in;
    r.dim[a] = in->dim[b];
    r.dim[b] = in->dim[a];
    r.stride[a] = in->stride[b];
    r.stride[b] = in->stride[a];
    *out = r;
    return QN_OK;
}

static void remove_dim(qn_layout *r, int d)
{
    for (int i = d; i + 1 < r->rank; i++) {
        r->dim[i] = r->dim[i + 1];
        r->stride[i] = r->stride[i + 1];
    }
    r->rank--;
    r->dim[r->rank] = r->stride[r->rank] = 0;
}

qn_status qn_layout_squeeze(const qn_layout *in, int dim, qn_layout *out, qn_error *err)
{
    int d;
    QN_TRY(qn__layout_check("squeeze", in, err));
    QN_TRY(qn__dim_index("squeeze", in, dim, true, &d, err));
    qn_layout r = *in;
    if (r.rank > 0 && r.dim[d] == 1) remove_dim(&r, d);
    *out = r;
    return QN_OK;
}

qn_status qn_layout_unsqueeze(const qn_layout *in, int dim, qn_layout *out, qn_error *err)
{
    char text[QN_SHAPE_TEXT];
    QN_TRY(qn__layout_check("unsqueeze", in, err));
    if (in->rank == QN_MAX_RANK) {
        return QN_FAIL(err, invalid, "unsqueeze: %s already has the most dimensions, %d", qn__layout_print(in, text),
                       QN_MAX_RANK);
    }
    if (dim < -in->rank - 1 || dim > in->rank) {
        return QN_FAIL(err, invalid, "unsqueeze: dimension %d is out of range for %s, %d to %d were expected", dim,
                       qn__layout_print(in, text), -in->rank - 1, in->rank);
    }
    const int d = dim < 0 ? dim + in->rank + 1 : dim;
    qn_layout r = *in;
    for (int i = r.rank; i > d; i--) {
        r.dim[i] = r.dim[i - 1];
        r.stride[i] = r.stride[i - 1];
    }
    int64_t stride = 1; /* never taken; dense where that can be said */
    if (d < in->rank && __builtin_mul_overflow(in->dim[d], in->stride[d], &stride)) stride = 1;
    r.rank++;
    r.dim[d] = 1;
    r.stride[d] = stride;
    *out = r;
    return QN_OK;
}

qn_status qn_layout_expand(const qn_layout *in, const qn_shape *shape, qn_layout *out, qn_error *err)
{
    char from[QN_SHAPE_TEXT], to[QN_SHAPE_TEXT];
    QN_TRY(qn__layout_check("expand", in, err));
    qn_layout r = {.rank = shape->rank, .offset = in->offset};
    bool ok = shape->rank >= in->rank && shape->rank <= QN_MAX_RANK;
    const int fresh = shape->rank - in->rank; /* dimensions that are new in front */
    for (int i = 0; ok && i < shape->rank; i++) {
        const bool old = i >= fresh;
        const int64_t want = shape->dim[i] == -1 && old ? in->dim[i - fresh] : shape->dim[i];
        const bool same = old && in->dim[i - fresh] == want;
        r.dim[i] = want;
        r.stride[i] = same ? in->stride[i - fresh] : 0;
        ok = want >= 0 && (!old || same || in->dim[i - fresh] == 1);
    }
    const qn_shape s = qn_layout_shape(&r);
    if (!ok || !qn__shape_ok(&s)) {
        return QN_FAIL(err, invalid,
                       "expand: %s cannot become %s, only dimensions of size 1 stretch and new ones go in front",
                       qn__layout_print(in, from), qn_shape_print(shape, to, sizeof to));
    }
    *out = r;
    return QN_OK;
}

/* ---- parts ---- */

qn_status qn_layout_narrow(const qn_layout *in, int dim, int64_t start, int64_t length, qn_layout *out, qn_error *err)
{
    int d;
    QN_TRY(qn__layout_check("narrow", in, err));
    QN_TRY(qn__dim_index("narrow", in, dim, false, &d, err));
    const int64_t size = in->dim[d], first = start < 0 && start >= -size ? start + size : start;
    if (first < 0 || first > size || length < 0 || length > size - first) {
        char text[QN_SHAPE_TEXT];
        return QN_FAIL(err, invalid, "narrow: start %lld and length %lld leave dimension %d of %s", (long long)start,
                       (long long)length, d, qn__layout_print(in, text));
    }
    qn_layout r = *in;
    r.dim[d] = length;
    r.offset = qn__add_reach(in->offset, first, in->stride[d]);
    *out = r;
    return QN_OK;
}

qn_status qn_layout_select(const qn_layout *in, int dim, int64_t index, qn_layout *out, qn_error *err)
{
    int d;
    QN_TRY(qn__layout_check("select", in, err));
    QN_TRY(qn__dim_index("select", in, dim, false, &d, err));
    const int64_t size = in->dim[d];
    if (index < -size || index >= size) {
        char text[QN_SHAPE_TEXT];
        return QN_FAIL(err, invalid, "select: index %lld is out of range for dimension %d of %s", (long long)index, d,
                       qn__layout_print(in, text));
    }
    qn_layout r = *in;
    r.offset = qn__add_reach(in->offset, index < 0 ? index + size : index, in->stride[d]);
    remove_dim(&r, d);
    *out = r;
    return QN_OK;
}

static int64_t clamp_index(int64_t i, int64_t size)
{
    if (i < 0) i = i < -size ? 0 : i + size;
    return i > size ? size : i;
}

qn_status qn_layout_slice(const qn_layout *in, int dim, int64_t start, int64_t stop, int64_t step, qn_layout *out,
                          qn_error *err)
{
    int d;
    QN_TRY(qn__layout_check("slice", in, err));
    QN_TRY(qn__dim_index("slice", in, dim, false, &d, err));
    if (step < 1) return QN_FAIL(err, invalid, "slice: step %lld was given, at least 1 was expected", (long long)step);
    const int64_t size = in->dim[d], first = clamp_index(start, size), last = clamp_index(stop, size);
    qn_layout r = *in;
    r.dim[d] = last > first ? (last - first - 1) / step + 1 : 0;
    r.offset = qn__add_reach(in->offset, first, in->stride[d]);
    /* With at most one element left no step is taken, and a huge one need not be computed. */
    if (r.dim[d] > 1 && __builtin_mul_overflow(in->stride[d], step, &r.stride[d])) r.stride[d] = in->stride[d];
    *out = r;
    return QN_OK;
}

qn_status qn_layout_flip(const qn_layout *in, int dim, qn_layout *out, qn_error *err)
{
    int d;
    QN_TRY(qn__layout_check("flip", in, err));
    QN_TRY(qn__dim_index("flip", in, dim, true, &d, err));
    qn_layout r = *in;
    if (r.rank > 0) {
        if (r.dim[d] > 0) r.offset = qn__add_reach(in->offset, r.dim[d] - 1, r.stride[d]);
        r.stride[d] = -r.stride[d];
    }
    *out = r;
    return QN_OK;
}
