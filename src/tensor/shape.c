/* SPDX-License-Identifier: MIT */
/* src/tensor/shape.c -- counting, comparing, broadcasting and printing shapes. A shape may come from anywhere: every
 * function checks rank and dimensions before it uses them. */
#include "base/error.h"
#include "tensor/shape.h"
#include <stdio.h>
#include <string.h>

bool qn__shape_ok(const qn_shape *s)
{
    if (s->rank < 0 || s->rank > QN_MAX_RANK) return false;
    int64_t n = 1; /* with zeros read as ones, because the strides of an empty tensor are made like that */
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0 || __builtin_mul_overflow(n, s->dim[i] > 0 ? s->dim[i] : 1, &n) || n > QN_MAX_NUMEL)
            return false;
    }
    return true;
}

int64_t qn__dims_product(int rank, const int64_t *dim)
{
    if (rank < 0 || rank > QN_MAX_RANK) return -1;
    int64_t n = 1;
    bool overflow = false, empty = false;
    for (int i = 0; i < rank; i++) {
        if (dim[i] < 0) return -1;
        if (dim[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(n, dim[i], &n))
            overflow = true;
    }
    return empty ? 0 : overflow ? -1 : n;
}

int64_t qn_shape_numel(const qn_shape *shape) { return qn__dims_product(shape->rank, shape->dim); }

bool qn_shape_equal(const qn_shape *a, const qn_shape *b)
{
    if (a->rank != b->rank || a->rank < 0 || a->rank > QN_MAX_RANK) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i]) return false;
    }
    return true;
}

qn_status qn_shape_broadcast(const qn_shape *a, const qn_shape *b, qn_shape *out, qn_error *err)
{
    char sa[QN_SHAPE_TEXT], sb[QN_SHAPE_TEXT];
    qn_shape r = {0};
    bool ok = qn__shape_ok(a) && qn__shape_ok(b);
    if (ok) r.rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 1; ok && i <= r.rank; i++) { /* aligned at the last dimension */
        const int64_t da = i <= a->rank ? a->dim[a->rank - i] : 1, db = i <= b->rank ? b->dim[b->rank - i] : 1;
        r.dim[r.rank - i] = da == 1 ? db : da;
        ok = da == db || da == 1 || db == 1;
    }
    if (!ok || !qn__shape_ok(&r)) {
        return QN_FAIL(err, invalid, "broadcast: %s and %s do not fit together", qn_shape_print(a, sa, sizeof sa),
                       qn_shape_print(b, sb, sizeof sb));
    }
    *out = r;
    return QN_OK;
}

const char *qn_shape_print(const qn_shape *shape, char *buf, size_t size)
{
    char text[QN_SHAPE_TEXT];
    const int rank = shape->rank < 0 ? 0 : shape->rank > QN_MAX_RANK ? QN_MAX_RANK : shape->rank;
    size_t n = 0;
    text[n++] = '[';
    for (int i = 0; i < rank; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", i > 0 ? "," : "", (long long)shape->dim[i]);
    }
    snprintf(text + n, sizeof text - n, "]");
    if (size > 0) snprintf(buf, size, "%s", text);
    return buf;
}
