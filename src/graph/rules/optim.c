/* SPDX-License-Identifier: MIT */
/* src/graph/rules/optim.c -- shape rules of the optimizers' steps, see ops_optim.h. */
#include "graph/rules/rules.h"

/* Source 0 is what the step changes. */
static qn_status check_target(qn_node *n, qn_error *err)
{
    const qn_node *dst = n->src[0];
    if (!qn__is_param(dst->root, QN_NODE_mutable)) {
        char text[QN_NODE_TEXT];
        return QN_FAIL(err, invalid, "%s: the destination %s is not a mutable param", OP(n),
                       qn__node_text(dst->root, text));
    }
    if (dst->dtype != QN_DTYPE_F32 && dst->dtype != QN_DTYPE_F64) {
        return QN_FAIL(err, invalid, "%s: the destination is %s, F32 or F64 expected", OP(n), DTYPE(dst->dtype));
    }
    if (!qn_layout_is_contiguous(&dst->layout))
        return QN_FAIL(err, invalid, "%s: the destination %s is not dense", OP(n), SHAPE(dst));
    n->dtype = dst->dtype;
    n->layout = dst->layout;
    return QN_OK;
}

/* As many elements as there are parameters, computed with as wide as they are. */
static qn_status check_elements(const qn_node *n, int i, const char *what, int64_t count, qn_error *err)
{
    QN_TRY(rule_real(n, i, what, err));
    if ((n->src[i]->dtype == QN_DTYPE_F64) != (n->src[0]->dtype == QN_DTYPE_F64)) {
        return QN_FAIL(err, invalid, "%s: %s is %s for a destination that is %s", OP(n), what, DTYPE(n->src[i]->dtype),
                       DTYPE(n->src[0]->dtype));
    }
    if (qn_layout_numel(&n->src[i]->layout) == count) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s for a destination %s", OP(n), what, SHAPE(n->src[i]), SHAPE(n->src[0]));
}

/* The same, laid out and typed like the destination. */
static qn_status check_dense(const qn_node *n, int i, const char *what, int64_t count, qn_error *err)
{
    QN_TRY(rule_same_dtype(n, 0, i, err));
    QN_TRY(check_elements(n, i, what, count, err));
    if (qn_layout_is_contiguous(&n->src[i]->layout)) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s %s is not dense", OP(n), what, SHAPE(n->src[i]));
}

static qn_status check_f64(const qn_node *n, int i, const char *what, const qn_shape *want, qn_error *err)
{
    if (n->src[i]->dtype != QN_DTYPE_F64) {
        return QN_FAIL(err, invalid, "%s: %s is %s, F64 expected", OP(n), what, DTYPE(n->src[i]->dtype));
    }
    QN_TRY(rule_shape(n, i, what, want, err));
    if (qn_layout_is_contiguous(&n->src[i]->layout)) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is not dense", OP(n), what);
}

static qn_status check_numbers(const qn_node *n, int numbers, int factor, qn_error *err)
{
    const qn_shape want = qn_shape_of(QN_OPTIM_NUMBERS), scalar = {0};
    QN_TRY(check_f64(n, numbers, "numbers", &want, err));
    return factor < 0 ? QN_OK : check_f64(n, factor, "the factor", &scalar, err);
}

qn_status qn__rule_barrier(qn_node *n, qn_error *err)
{
    QN_TRY(rule_plain(n, 0, "x", err));
    return rule_like(n, n->src[0], err);
}

qn_status qn__rule_sum_squares(qn_node *n, qn_error *err)
{
    const qn_shape scalar = {0};
    const bool carry = ((const qn_sum_squares_attrs *)n->attrs)->carry != 0;
    if (carry) QN_TRY(check_f64(n, 0, "the sum so far", &scalar, err));
    for (int i = carry; i < n->n_src; i++) QN_TRY(rule_real(n, i, "a source", err));
    return rule_dense(n, QN_DTYPE_F64, &scalar, err);
}

qn_status qn__rule_optim_state(qn_node *n, qn_error *err)
{
    const qn_node *state = n->src[0];
    QN_TRY(check_target(n, err));
    QN_TRY(rule_rank(n, 0, "the state", 2, 2, err));
    const int64_t rows = state->layout.dim[0], count = state->layout.dim[1];
    const bool adam = n->op == QN_OP_adam_moments;
    if (adam ? rows != 2 && rows != QN_ADAM_ROWS : rows != 1) {
        return QN_FAIL(err, invalid, "%s: the state is %s, %s expected", OP(n), SHAPE(state),
                       adam ? "2 or 3 rows" : "1 row");
    }
    QN_TRY(check_elements(n, 1, "the gradient", count, err));
    QN_TRY(check_numbers(n, 2, 3, err));
    return n->n_src > 4 ? check_dense(n, 4, "the parameter", count, err) : QN_OK;
}

qn_status qn__rule_sgd_step(qn_node *n, qn_error *err)
{
    const int32_t mode = ((const qn_sgd_attrs *)n->attrs)->mode;
    const int n_src = 4 + (mode == QN_SGD_nesterov);
    QN_TRY(check_target(n, err));
    const int64_t count = qn_layout_numel(&n->layout);
    if ((uint32_t)mode >= QN_SGD_MODES) return QN_FAIL(err, invalid, "sgd_step: mode %d does not exist", mode);
    if (n->n_src != n_src) return QN_FAIL(err, invalid, "sgd_step: %d sources, %d expected", n->n_src, n_src);
    QN_TRY(check_elements(n, 1, "the gradient", count, err));
    QN_TRY(check_numbers(n, 2, 3, err));
    return n_src > 4 ? check_dense(n, 4, "the buffer", count, err) : QN_OK;
}

qn_status qn__rule_adam_step(qn_node *n, qn_error *err)
{
    const qn_node *state = n->src[1];
    QN_TRY(check_target(n, err));
    QN_TRY(rule_rank(n, 1, "the state", 2, 2, err));
    if (state->layout.dim[0] != 2 && state->layout.dim[0] != QN_ADAM_ROWS) {
        return QN_FAIL(err, invalid, "adam_step: the state is %s, 2 or 3 rows expected", SHAPE(state));
    }
    QN_TRY(check_dense(n, 1, "the state", qn_layout_numel(&n->layout) * state->layout.dim[0], err));
    return check_numbers(n, 2, -1, err);
}
