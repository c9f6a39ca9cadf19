/* SPDX-License-Identifier: MIT */
/* src/array/ops/reduce.c -- reductions, softmax and scans on handles. */
#include "array/ops/apply.h"

#include <string.h>

typedef enum qn_takes { QN_TAKES_any, QN_TAKES_real, QN_TAKES_convert } qn_takes;

static bool which(const char *name, const qn_tensor *x, const int *dims, int n_dims, uint32_t *out)
{
    const int rank = of(x)->layout.rank > 0 ? of(x)->layout.rank : 1;
    *out = 0;
    if (n_dims > 0 && !qn__given_at(of(x)->ctx, dims, name, "dims")) return false;
    for (int i = 0; i < n_dims; i++) {
        const int d = qn__dim_of(name, x, dims[i]);
        if (d < 0) return false;
        if (*out >> d & 1) {
            (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: dimension %d of %s is named twice", name, dims[i],
                          QN_TEXT_OF(x));
            return false;
        }
        *out |= 1u << d;
    }
    if (n_dims == 0) *out = (1u << rank) - 1;
    return true;
}

static qn_tensor *reduce(qn_op op, qn_takes takes, qn_tensor *x, const int *dims, int n_dims, bool keep, double value)
{
    if (!LIVE(x)) return NULL;
    qn_reduce_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.keep = keep;
    attrs.value = value;
    if (!which(qn__op_info(op)->name, x, dims, n_dims, &attrs.dims)) return NULL;
    if (takes == QN_TAKES_convert) return qn__compute(op, QN_TYPES_real, &attrs, (qn_target){0}, &x, 1);
    return qn__plain(op, &attrs, (qn_target){0}, &x, 1);
}

#define QN_REDUCE(name, types, text) \
    qn_tensor *qn_##name(qn_tensor *x, const int *dims, int n_dims, bool keepdim) \
    { \
        return reduce(QN_OP_##name, QN_TAKES_##types, x, dims, n_dims, keepdim, 0); \
    }
QN_REDUCE_ROWS(QN_REDUCE)

qn_tensor *qn_var(qn_tensor *x, const int *dims, int n_dims, double correction, bool keepdim)
{
    return reduce(QN_OP_var, QN_TAKES_real, x, dims, n_dims, keepdim, correction);
}

qn_tensor *qn_std(qn_tensor *x, const int *dims, int n_dims, double correction, bool keepdim)
{
    return reduce(QN_OP_std, QN_TAKES_real, x, dims, n_dims, keepdim, correction);
}

qn_tensor *qn_norm(qn_tensor *x, double p, const int *dims, int n_dims, bool keepdim)
{
    return reduce(QN_OP_norm, QN_TAKES_real, x, dims, n_dims, keepdim, p);
}

/* ---- the place of an extreme, and the extreme itself ---- */

static qn_tensor *place(qn_op op, qn_tensor *x, int dim, bool keep)
{
    return reduce(op, QN_TAKES_any, x, &dim, dim == QN_FLAT ? 0 : 1, keep, 0);
}

qn_tensor *qn_argmax(qn_tensor *x, int dim, bool keepdim) { return place(QN_OP_argmax, x, dim, keepdim); }
qn_tensor *qn_argmin(qn_tensor *x, int dim, bool keepdim) { return place(QN_OP_argmin, x, dim, keepdim); }

/* Without the dimension that was kept, unless it shall be. */
static qn_tensor *without(qn_tensor *t, int dim, bool keep)
{
    if (t == NULL || keep) return t;
    qn_tensor *v = qn_squeeze(t, dim);
    qn_release(t);
    return v;
}

static qn_tensor *extreme(qn_op op, qn_tensor *x, int dim, bool keep, qn_tensor **indices)
{
    if (indices != NULL) *indices = NULL;
    const int d = LIVE(x) ? qn__dim_of(qn__op_info(op)->name, x, dim) : -1;
    if (d < 0) return NULL;
    if (of(x)->layout.rank == 0) keep = true; /* there is no dimension to take away */
    qn_tensor *at = place(op, x, d, true), *y = qn_gather(x, d, at);
    y = without(y, d, keep);
    at = without(at, d, keep);
    if (y == NULL || at == NULL || indices == NULL) {
        qn_release(at);
        return y;
    }
    *indices = at;
    return y;
}

qn_tensor *qn_max(qn_tensor *x, int dim, bool keepdim, qn_tensor **indices)
{
    return extreme(QN_OP_argmax, x, dim, keepdim, indices);
}
qn_tensor *qn_min(qn_tensor *x, int dim, bool keepdim, qn_tensor **indices)
{
    return extreme(QN_OP_argmin, x, dim, keepdim, indices);
}

/* ---- along one dimension ---- */

static qn_tensor *along(qn_op op, qn_tensor *x, int dim)
{
    const int d = LIVE(x) ? qn__dim_of(qn__op_info(op)->name, x, dim) : -1;
    return d < 0 ? NULL : qn__plain(op, &(qn_along_attrs){d}, (qn_target){0}, &x, 1);
}

qn_tensor *qn_softmax(qn_tensor *x, int dim) { return along(QN_OP_softmax, x, dim); }
qn_tensor *qn_log_softmax(qn_tensor *x, int dim) { return along(QN_OP_log_softmax, x, dim); }
qn_tensor *qn_cumsum(qn_tensor *x, int dim) { return along(QN_OP_cumsum, x, dim); }
qn_tensor *qn_cumprod(qn_tensor *x, int dim) { return along(QN_OP_cumprod, x, dim); }
