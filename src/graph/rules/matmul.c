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
