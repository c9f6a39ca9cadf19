/* SPDX-License-Identifier: MIT */
/* src/array/ops/out.c -- the out= forms that the rows of quern/functions.h declare: the result as it is recorded
 * without, then written where the caller wants it. The copy in between goes in the layout pass. */
#include "array/ops/apply.h"

/* May y's values be written into out? */
static bool fits(const char *name, const qn_tensor *out, const qn_tensor *y)
{
    qn_context *ctx = of(out)->ctx;
    const qn_shape have = qn_layout_shape(&of(y)->layout), room = qn_layout_shape(&of(out)->layout);
    if (!qn_shape_equal(&have, &room)) {
        (void)QN_FAIL(qn__err(ctx), invalid, "%s_out: the result %s does not fit %s", name, QN_TEXT_OF(y),
                      QN_TEXT_OF(out));
        return false;
    }
    const qn_dtype from = of(y)->storage->dtype, to = of(out)->storage->dtype;
    if (qn__can_cast(from, to)) return true;
    (void)QN_FAIL(qn__err(ctx), invalid, "%s_out: the result is %s and cannot be stored in %s", name,
                  qn_dtype_get(from)->name, qn_dtype_get(to)->name);
    return false;
}

static bool write(qn_tensor *out, qn_tensor *y)
{
    const qn_copy_attrs attrs = {(int32_t)of(out)->storage->dtype};
    return qn__apply_into(out, false, QN_OP_copy, &attrs, &y, 1) != NULL;
}

/* y ends. */
static qn_tensor *deliver(const char *name, qn_tensor *out, qn_tensor *y)
{
    const bool good = qn__same_context(name, (qn_tensor *[]){out, y}, 2) != NULL && fits(name, out, y) && write(out, y);
    qn_release(y);
    return good ? out : NULL;
}

#define QN_REDUCE(name, types, text) \
    qn_tensor *qn_##name##_out(qn_tensor *out, qn_tensor *x, const int *dims, int n_dims, bool keepdim) \
    { \
        return LIVE(out) ? deliver(#name, out, qn_##name(x, dims, n_dims, keepdim)) : NULL; \
    }
QN_REDUCE_ROWS(QN_REDUCE)

#define QN_OUT(name, parameters, arguments) \
    qn_tensor *qn_##name##_out(qn_tensor *out, QN_PARAMETERS parameters) \
    { \
        return LIVE(out) ? deliver(#name, out, qn_##name arguments) : NULL; \
    }
QN_OUT_ROWS(QN_OUT)

/* ---- two results ---- */

/* y and at end. Values are written last: once indices are, nothing but memory is missing. */
static qn_tensor *deliver_two(const char *name, qn_tensor *out, qn_tensor *indices, qn_tensor *y, qn_tensor *at)
{
    const bool good = qn__same_context(name, (qn_tensor *[]){out, indices, y, at}, 4) != NULL && fits(name, out, y) &&
                      fits(name, indices, at) && qn__tape_writable(out, name, &y, 1) && write(indices, at) &&
                      write(out, y);
    qn_release(y);
    qn_release(at);
    return good ? out : NULL;
}

qn_tensor *qn_max_out(qn_tensor *out, qn_tensor *indices, qn_tensor *x, int dim, bool keepdim)
{
    qn_tensor *at = NULL, *y = LIVE(out) && LIVE(indices) ? qn_max(x, dim, keepdim, &at) : NULL;
    return deliver_two("max", out, indices, y, at);
}

qn_tensor *qn_min_out(qn_tensor *out, qn_tensor *indices, qn_tensor *x, int dim, bool keepdim)
{
    qn_tensor *at = NULL, *y = LIVE(out) && LIVE(indices) ? qn_min(x, dim, keepdim, &at) : NULL;
    return deliver_two("min", out, indices, y, at);
}

qn_tensor *qn_sort_out(qn_tensor *out, qn_tensor *indices, qn_tensor *x, int dim, bool descending)
{
    qn_tensor *at = NULL, *y = LIVE(out) && LIVE(indices) ? qn_sort(x, dim, descending, &at) : NULL;
    return deliver_two("sort", out, indices, y, at);
}

qn_tensor *qn_topk_out(qn_tensor *out, qn_tensor *indices, qn_tensor *x, int64_t k, int dim, bool largest)
{
    qn_tensor *at = NULL, *y = LIVE(out) && LIVE(indices) ? qn_topk(x, k, dim, largest, &at) : NULL;
    return deliver_two("topk", out, indices, y, at);
}
