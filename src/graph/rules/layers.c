/* SPDX-License-Identifier: MIT */
/* src/graph/rules/layers.c -- shape rules of layers, losses and their gradients. */
#include "graph/rules/rules.h"

#include <math.h>

static qn_status want_float(const qn_node *n, int i, const char *what, qn_error *err)
{
    const qn_dtype d = n->src[i]->dtype;
    if (d == QN_DTYPE_F32 || d == QN_DTYPE_F64) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, F32 or F64 expected", OP(n), what, DTYPE(d));
}

/* Source i has the dtype of source 0 and that shape. */
static qn_status like_first(const qn_node *n, int i, const char *what, const qn_shape *shape, qn_error *err)
{
    QN_TRY(rule_same_dtype(n, 0, i, err));
    return rule_shape(n, i, what, shape, err);
}

/* ---- norms ---- */

static qn_status check_norm(const qn_node *n, int x, double eps, qn_error *err)
{
    QN_TRY(want_float(n, 0, "x", err));
    if (n->src[x]->layout.rank < 1)
        return QN_FAIL(err, invalid, "%s: x is a scalar, at least 1 dimension expected", OP(n));
    if (!(eps >= 0) || !isfinite(eps)) return QN_FAIL(err, invalid, "%s: eps is %g, 0 or more expected", OP(n), eps);
    return QN_OK;
}

qn_status qn__rule_layer_norm(qn_node *n, qn_error *err)
{
    QN_TRY(check_norm(n, 0, ((const qn_layer_norm_attrs *)n->attrs)->eps, err));
    const qn_shape row = qn_shape_of(rule_last(n->src[0]));
    if (n->n_src > 1) QN_TRY(like_first(n, 1, "w", &row, err));
    if (n->n_src > 2) QN_TRY(like_first(n, 2, "b", &row, err));
    return rule_like(n, n->src[0], err);
}

/* sources: dy, x, w */
qn_status qn__rule_norm_back(qn_node *n, qn_error *err)
{
    const qn_norm_back_attrs *a = n->attrs;
    const qn_node *dy = n->src[0];
    QN_TRY(check_norm(n, 1, a->eps, err));
    const qn_shape shape = qn_layout_shape(&dy->layout), row = qn_shape_of(rule_last(n->src[1]));
    QN_TRY(like_first(n, 1, "x", &shape, err));
    if (n->n_src > 2) QN_TRY(like_first(n, 2, "w", &row, err));
    if (a->wanted < 1 || a->wanted > 7) return QN_FAIL(err, invalid, "norm_back: parts %d, 1 to 7 expected", a->wanted);
    if (a->wanted == QN_NORM_x) return rule_like(n, dy, err);
    const int64_t numel = qn_shape_numel(&shape);
    int64_t all = a->wanted & QN_NORM_x ? numel : 0;
    const int rows = !!(a->wanted & QN_NORM_w) + !!(a->wanted & QN_NORM_b);
    if (__builtin_add_overflow(all, rows * row.dim[0], &all))
        return QN_FAIL(err, limit, "norm_back: %s is too large", SHAPE(dy));
    return rule_dense(n, dy->dtype, &qn_shape_of(all), err);
}

/* ---- gates and rotations ---- */

qn_status qn__rule_softmax_back(qn_node *n, qn_error *err)
{
    const qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    QN_TRY(want_float(n, 0, "dy", err));
    QN_TRY(rule_rank(n, 0, "dy", 1, QN_MAX_RANK, err));
    QN_TRY(like_first(n, 1, "y", &shape, err));
    return rule_like(n, n->src[0], err);
}

qn_status qn__rule_swiglu_back(qn_node *n, qn_error *err)
{
    const qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    QN_TRY(rule_real(n, 0, "dy", err));
    QN_TRY(like_first(n, 1, "gate", &shape, err));
    QN_TRY(like_first(n, 2, "up", &shape, err));
    if (shape.rank >= QN_MAX_RANK)
        return QN_FAIL(err, limit, "swiglu_back: %s, fewer dimensions expected", SHAPE(n->src[0]));
    qn_shape both = {.rank = shape.rank + 1, .dim = {2}};
    for (int i = 0; i < shape.rank; i++) both.dim[i + 1] = shape.dim[i];
    return rule_dense(n, n->src[0]->dtype, &both, err);
}

qn_status qn__rule_rope_table(qn_node *n, qn_error *err)
{
    const qn_rope_table_attrs *a = n->attrs;
    QN_TRY(rule_ids(n, 0, "pos", err));
    QN_TRY(qn__rope_check(&a->rope, a->rope.n_rot, err));
    if (n->n_src > 1) {
        if (n->src[1]->dtype != QN_DTYPE_F32)
            return QN_FAIL(err, invalid, "rope_table: factors are %s, F32 expected", DTYPE(n->src[1]->dtype));
        QN_TRY(rule_shape(n, 1, "factors", &qn_shape_of(a->rope.n_rot / 2), err));
    }
    if (a->dtype != QN_DTYPE_F32 && a->dtype != QN_DTYPE_F64)
        return QN_FAIL(err, invalid, "rope_table: F32 or F64 expected");
    qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    if (qn__rope_numbers(&a->rope) > 1) {
        if (shape.rank < 1 || shape.dim[shape.rank - 1] != 4)
            return QN_FAIL(err, invalid, "rope_table: pos is %s, with sections a last dimension of 4 is expected",
                           SHAPE(n->src[0]));
        shape.rank--;
    }
    if (shape.rank >= QN_MAX_RANK)
        return QN_FAIL(err, limit, "rope_table: pos is %s, fewer dimensions expected", SHAPE(n->src[0]));
    shape.dim[shape.rank++] = a->rope.n_rot;
    return rule_dense(n, (qn_dtype)a->dtype, &shape, err);
}

qn_status qn__rule_rope_apply(qn_node *n, qn_error *err)
{
    const qn_rope_apply_attrs *a = n->attrs;
    const qn_layout *x = &n->src[0]->layout, *table = &n->src[1]->layout;
    QN_TRY(want_float(n, 0, "x", err));
    QN_TRY(rule_same_dtype(n, 0, 1, err));
    QN_TRY(rule_rank(n, 0, "x", 3, QN_MAX_RANK, err));
    QN_TRY(rule_rank(n, 1, "table", 1, QN_MAX_RANK, err));
    if (a->n_rot < 2 || a->n_rot % 2 != 0 || a->n_rot > rule_last(n->src[0]) || rule_last(n->src[1]) != a->n_rot) {
        return QN_FAIL(err, invalid, "turn: %d elements of %s by a table %s", a->n_rot, SHAPE(n->src[0]),
                       SHAPE(n->src[1]));
    }
    /* The table's leading dimensions are the last ones of x's but heads. */
    const int heads = x->rank - (a->heads_first ? 3 : 2);
    int at = x->rank - 2;
    for (int i = table->rank - 2; i >= 0; i--, at--) {
        if (at == heads) at--;
        if (at < 0 || table->dim[i] != x->dim[at]) {
            return QN_FAIL(err, invalid, "turn: a table %s does not fit x %s", SHAPE(n->src[1]), SHAPE(n->src[0]));
        }
    }
    return rule_like(n, n->src[0], err);
}

/* ---- cross entropy ---- */

static qn_status check_losses(const qn_node *n, int weight, qn_error *err)
{
    const qn_cross_entropy_attrs *a = n->attrs;
    QN_TRY(want_float(n, 0, "logits", err));
    QN_TRY(rule_rank(n, 0, "logits", 2, 2, err));
    QN_TRY(rule_ids(n, 1, "ids", err));
    QN_TRY(rule_shape(n, 1, "ids", &qn_shape_of(n->src[0]->layout.dim[0]), err));
    if (n->n_src > weight) QN_TRY(like_first(n, weight, "weight", &qn_shape_of(rule_last(n->src[0])), err));
    if (!(a->smoothing >= 0) || !(a->smoothing <= 1))
        return QN_FAIL(err, invalid, "%s: smoothing %g, 0 to 1 expected", OP(n), a->smoothing);
    if ((uint32_t)a->reduction > QN_LOSSES_none)
        return QN_FAIL(err, invalid, "%s: reduction %d does not exist", OP(n), a->reduction);
    return QN_OK;
}

static qn_shape losses_shape(const qn_node *n)
{
    const int64_t rows = n->src[0]->layout.dim[0];
    return qn_shape_of(rows + (((const qn_cross_entropy_attrs *)n->attrs)->reduction == QN_LOSSES_none ? rows : 1));
}

qn_status qn__rule_cross_entropy(qn_node *n, qn_error *err)
{
    QN_TRY(check_losses(n, 2, err));
    const qn_shape shape = losses_shape(n);
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}

qn_status qn__rule_cross_entropy_back(qn_node *n, qn_error *err)
{
    QN_TRY(check_losses(n, 4, err));
    const qn_shape shape = losses_shape(n);
    QN_TRY(like_first(n, 2, "y", &shape, err));
    QN_TRY(like_first(n, 3, "dy", &shape, err));
    return rule_like(n, n->src[0], err);
}
