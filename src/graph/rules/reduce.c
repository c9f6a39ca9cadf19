/* SPDX-License-Identifier: MIT */
/* src/graph/rules/reduce.c -- shape rules of reductions over sets of dimensions, and of softmax and scans along one. */
#include "graph/rules/rules.h"
#include <math.h>

static bool is_whole(const qn_node *n)
{
    return rule_class(n) == QN_CLASS_integer || rule_class(n) == QN_CLASS_boolean;
}

static qn_status reduced(qn_node *n, qn_dtype dtype, qn_error *err)
{
    const qn_reduce_attrs *a = n->attrs;
    const qn_layout *x = &n->src[0]->layout;
    qn_shape shape = {0};
    QN_TRY(rule_plain(n, 0, "x", err));
    if (a->dims >> (x->rank > 0 ? x->rank : 1)) {
        return QN_FAIL(err, invalid, "%s: dimensions %#x of %s don't exist", OP(n), (unsigned)a->dims,
                       SHAPE(n->src[0]));
    }
    for (int i = 0; i < x->rank; i++) {
        const bool gone = a->dims >> i & 1;
        if (!gone || a->keep) shape.dim[shape.rank++] = gone ? 1 : x->dim[i];
    }
    return rule_dense(n, dtype, &shape, err);
}

static qn_status not_empty(const qn_node *n, qn_error *err)
{
    const qn_layout *x = &n->src[0]->layout;
    for (int i = 0; i < x->rank; i++) {
        if ((((const qn_reduce_attrs *)n->attrs)->dims >> i & 1) == 0 || x->dim[i] > 0) continue;
        return QN_FAIL(err, invalid, "%s: dimension %d of %s is empty, of nothing there is no such value", OP(n), i,
                       SHAPE(n->src[0]));
    }
    return QN_OK;
}

qn_status qn__rule_red_sum(qn_node *n, qn_error *err)
{
    return reduced(n, is_whole(n->src[0]) ? QN_DTYPE_I64 : n->src[0]->dtype, err);
}

qn_status qn__rule_red_real(qn_node *n, qn_error *err)
{
    QN_TRY(rule_real(n, 0, "x", err));
    return reduced(n, n->src[0]->dtype, err);
}

qn_status qn__rule_red_var(qn_node *n, qn_error *err)
{
    const double c = ((const qn_reduce_attrs *)n->attrs)->value;
    if (!isfinite(c)) return QN_FAIL(err, invalid, "%s: correction %g, a finite number expected", OP(n), c);
    return qn__rule_red_real(n, err);
}

qn_status qn__rule_red_norm(qn_node *n, qn_error *err)
{
    const double p = ((const qn_reduce_attrs *)n->attrs)->value;
    if (isnan(p)) return QN_FAIL(err, invalid, "norm: p is not a number");
    QN_TRY(qn__rule_red_real(n, err));
    return p < 0 || isinf(p) ? not_empty(n, err) : QN_OK;
}

qn_status qn__rule_red_extreme(qn_node *n, qn_error *err)
{
    QN_TRY(reduced(n, n->src[0]->dtype, err));
    return not_empty(n, err);
}

qn_status qn__rule_red_where(qn_node *n, qn_error *err)
{
    QN_TRY(reduced(n, QN_DTYPE_I64, err));
    return not_empty(n, err);
}

qn_status qn__rule_red_truth(qn_node *n, qn_error *err) { return reduced(n, QN_DTYPE_BOOL, err); }
qn_status qn__rule_red_count(qn_node *n, qn_error *err) { return reduced(n, QN_DTYPE_I64, err); }

static qn_status along(qn_node *n, qn_dtype dtype, qn_error *err)
{
    const qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    QN_TRY(rule_plain(n, 0, "x", err));
    QN_TRY(rule_dim(n, 0, ((const qn_along_attrs *)n->attrs)->dim, err));
    return rule_dense(n, dtype, &shape, err);
}

qn_status qn__rule_along_real(qn_node *n, qn_error *err)
{
    QN_TRY(rule_real(n, 0, "x", err));
    return along(n, n->src[0]->dtype, err);
}

qn_status qn__rule_along_sum(qn_node *n, qn_error *err)
{
    return along(n, is_whole(n->src[0]) ? QN_DTYPE_I64 : n->src[0]->dtype, err);
}
