/* SPDX-License-Identifier: MIT */
/* src/tensor/layout.c -- dense layouts and questions about layouts. */
#include "base/error.h"
#include "tensor/shape.h"

qn_status qn_layout_contiguous(const qn_shape *shape, qn_layout *out, qn_error *err)
{
    if (!qn__shape_ok(shape)) {
        char text[QN_SHAPE_TEXT];
        return QN_FAIL(err, invalid,
                       "%s of rank %d is no shape: rank 0 to %d, no negative dimension and at most 2^62 elements "
                       "were expected",
                       qn_shape_print(shape, text, sizeof text), shape->rank, QN_MAX_RANK);
    }
    qn_layout r = {.rank = shape->rank};
    int64_t stride = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        r.dim[i] = shape->dim[i];
        r.stride[i] = stride;
        stride *= shape->dim[i] > 0 ? shape->dim[i] : 1;
    }
    *out = r;
    return QN_OK;
}

qn_shape qn_layout_shape(const qn_layout *layout)
{
    qn_shape s = {.rank = layout->rank};
    for (int i = 0; i < layout->rank && i < QN_MAX_RANK; i++) s.dim[i] = layout->dim[i];
    return s;
}

int64_t qn_layout_numel(const qn_layout *layout) { return qn__dims_product(layout->rank, layout->dim); }

bool qn_layout_is_contiguous(const qn_layout *layout)
{
    if (qn_layout_numel(layout) <= 0) return qn_layout_numel(layout) == 0;
    int64_t stride = 1;
    for (int i = layout->rank - 1; i >= 0; i--) {
        if (layout->dim[i] == 1) continue; /* a stride that is never taken may be anything */
        if (layout->stride[i] != stride) return false;
        stride *= layout->dim[i];
    }
    return true;
}

int64_t qn__add_reach(int64_t base, int64_t steps, int64_t stride)
{
    int64_t reach, sum;
    if (__builtin_mul_overflow(steps, stride, &reach)) return stride < 0 ? INT64_MIN : INT64_MAX;
    if (__builtin_add_overflow(base, reach, &sum)) return reach < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

void qn_layout_range(const qn_layout *layout, int64_t *begin, int64_t *end)
{
    int64_t low = layout->offset, high = layout->offset;
    if (qn_layout_numel(layout) == 0) {
        *begin = *end = 0;
        return;
    }
    for (int i = 0; i < layout->rank && i < QN_MAX_RANK; i++) {
        if (layout->stride[i] < 0)
            low = qn__add_reach(low, layout->dim[i] - 1, layout->stride[i]);
        else
            high = qn__add_reach(high, layout->dim[i] - 1, layout->stride[i]);
    }
    *begin = low;
    *end = high < INT64_MAX ? high + 1 : INT64_MAX;
}

const char *qn__layout_print(const qn_layout *layout, char buf[QN_SHAPE_TEXT])
{
    const qn_shape s = qn_layout_shape(layout);
    return qn_shape_print(&s, buf, QN_SHAPE_TEXT);
}

qn_status qn__layout_check(const char *op, const qn_layout *in, qn_error *err)
{
    const qn_shape s = qn_layout_shape(in);
    char text[QN_SHAPE_TEXT];
    if (qn__shape_ok(&s)) {
        int64_t begin, end;
        qn_layout_range(in, &begin, &end);
        bool ok = begin > INT64_MIN && end < INT64_MAX;
        for (int i = 0; i < in->rank; i++) ok = ok && in->stride[i] > INT64_MIN;
        if (ok) return QN_OK;
        return QN_FAIL(err, invalid, "%s: the strides of the input %s reach beyond 2^63 elements", op,
                       qn_shape_print(&s, text, sizeof text));
    }
    return QN_FAIL(err, invalid, "%s: the input %s of rank %d is no tensor", op, qn_shape_print(&s, text, sizeof text),
                   in->rank);
}

qn_status qn__dim_index(const char *op, const qn_layout *in, int dim, bool scalar_ok, int *out, qn_error *err)
{
    const int rank = in->rank == 0 && scalar_ok ? 1 : in->rank;
    if (dim < -rank || dim >= rank) {
        char text[QN_SHAPE_TEXT];
        if (rank == 0) return QN_FAIL(err, invalid, "%s: a scalar has no dimension %d", op, dim);
        return QN_FAIL(err, invalid, "%s: dimension %d is out of range for %s, %d to %d were expected", op, dim,
                       qn__layout_print(in, text), -rank, rank - 1);
    }
    *out = dim < 0 ? dim + rank : dim;
    return QN_OK;
}
