/* SPDX-License-Identifier: MIT */
/* src/graph/rules/matmul.c -- what a product of matrices accepts and yields. */
#include "graph/rules/rules.h"
#include <math.h>

qn_status qn__rule_matmul(qn_node *n, qn_error *err)
{
    const qn_node *a = n->src[0], *b = n->src[1];
    const qn_matmul_attrs *attrs = n->attrs;
    const qn_dtype_class class = rule_class(a);
    if (class != QN_CLASS_real && class != QN_CLASS_integer) {
        return QN_FAIL(err, invalid, "matmul: a is %s, a real or integer type expected", DTYPE(a->dtype));
    }
    QN_TRY(rule_same_dtype(n, 0, 1, err));
    QN_TRY(rule_rank(n, 0, "a", 2, QN_MAX_RANK, err));
    QN_TRY(rule_rank(n, 1, "b", 2, QN_MAX_RANK, err));
    qn_shape sa = qn_layout_shape(&a->layout), sb = qn_layout_shape(&b->layout), batch;
    const int64_t m = sa.dim[sa.rank - 2], k = sa.dim[sa.rank - 1], k2 = sb.dim[sb.rank - 2],
                  cols = sb.dim[sb.rank - 1];
    if (k != k2) {
        return QN_FAIL(err, invalid, "matmul: %s x %s: inner sizes %lld and %lld differ", SHAPE(a), SHAPE(b),
                       (long long)k, (long long)k2);
    }
    sa.rank -= 2;
    sb.rank -= 2;
    for (int i = 0; i < 2; i++) sa.dim[sa.rank + i] = sb.dim[sb.rank + i] = 0;
    if (qn_shape_broadcast(&sa, &sb, &batch, NULL) != QN_OK) {
        return QN_FAIL(err, invalid, "matmul: %s x %s: batch dimensions do not broadcast", SHAPE(a), SHAPE(b));
    }
    batch.dim[batch.rank] = m;
    batch.dim[batch.rank + 1] = cols;
    batch.rank += 2;
    QN_TRY(rule_dense(n, a->dtype, &batch, err));
    if (!isfinite(attrs->alpha) || !isfinite(attrs->beta)) {
        return QN_FAIL(err, invalid, "matmul: alpha %g and beta %g, finite numbers expected", attrs->alpha,
                       attrs->beta);
    }
    if (class == QN_CLASS_integer && (attrs->alpha != rint(attrs->alpha) || attrs->beta != rint(attrs->beta))) {
        return QN_FAIL(err, invalid, "matmul: alpha %g and beta %g, whole numbers expected for %s", attrs->alpha,
                       attrs->beta, DTYPE(a->dtype));
    }
    if (n->n_src < 3) return QN_OK;
    QN_TRY(rule_same_dtype(n, 2, 0, err));
    const qn_shape c = qn_layout_shape(&n->src[2]->layout);
    qn_shape both;
    if (qn_shape_broadcast(&c, &batch, &both, NULL) != QN_OK || !qn_shape_equal(&both, &batch)) {
        return QN_FAIL(err, invalid, "matmul: c %s does not broadcast to the product %s", SHAPE(n->src[2]), SHAPE(n));
    }
    return QN_OK;
}

qn_status qn__rule_linear_experts(qn_node *n, qn_error *err)
{
    const qn_node *x = n->src[0], *w = n->src[1], *ids = n->src[2];
    if (x->dtype != QN_DTYPE_F32)
        return QN_FAIL(err, invalid, "linear_experts: x is %s, F32 expected", DTYPE(x->dtype));
    if (rule_class(w) != QN_CLASS_real && rule_class(w) != QN_CLASS_block)
        return QN_FAIL(err, invalid, "linear_experts: w is %s, a type of weights expected", DTYPE(w->dtype));
    QN_TRY(rule_ids(n, 2, "ids", err));
    QN_TRY(rule_rank(n, 0, "x", 2, 3, err));
    QN_TRY(rule_rank(n, 1, "w", 3, 3, err));
    QN_TRY(rule_rank(n, 2, "ids", 2, 2, err));
    const int64_t e = w->layout.dim[0], m = w->layout.dim[1], k = w->layout.dim[2];
    if (e < 1) return QN_FAIL(err, invalid, "linear_experts: w is %s, at least 1 expert expected", SHAPE(w));
    if (rule_last(x) != k)
        return QN_FAIL(err, invalid, "linear_experts: %s x %s: inner sizes %lld and %lld differ", SHAPE(x), SHAPE(w),
                       (long long)rule_last(x), (long long)k);
    const qn_shape at = qn_layout_shape(&ids->layout);
    if (x->layout.dim[0] != at.dim[0] || (x->layout.rank == 3 && x->layout.dim[1] != at.dim[1]))
        return QN_FAIL(err, invalid, "linear_experts: x is %s, a row for each of ids %s, or each of its rows, expected",
                       SHAPE(x), SHAPE(ids));
    if (n->n_src > 3) {
        if (n->src[3]->dtype != QN_DTYPE_F32)
            return QN_FAIL(err, invalid, "linear_experts: bias is %s, F32 expected", DTYPE(n->src[3]->dtype));
        QN_TRY(rule_shape(n, 3, "bias", &qn_shape_of(e, m), err));
    }
    return rule_dense(n, QN_DTYPE_F32, &qn_shape_of(at.dim[0], at.dim[1], m), err);
}
