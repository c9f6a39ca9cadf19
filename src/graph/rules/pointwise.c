/* SPDX-License-Identifier: MIT */
/* src/graph/rules/pointwise.c -- shape rules of operations element by element: which dtypes they take, and that the
 * shapes of their sources broadcast. */
#include "graph/rules/rules.h"
#include <math.h>
#include <string.h>

enum { REAL = 1 << QN_CLASS_real, INTEGER = 1 << QN_CLASS_integer, BOOLEAN = 1 << QN_CLASS_boolean };

static const char *const ordinal[] = {"a", "b", "c"};

static qn_status want_class(const qn_node *n, int i, int classes, qn_error *err)
{
    static const char *const words[] = {
        [REAL] = "a real type",
        [INTEGER] = "an integer type",
        [INTEGER | BOOLEAN] = "an integer type or BOOL",
        [REAL | INTEGER] = "a real or integer type",
        [REAL | INTEGER | BOOLEAN] = "not a block format",
    };
    if (classes >> rule_class(n->src[i]) & 1) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, %s expected", OP(n), n->n_src > 1 ? ordinal[i] : "x",
                   DTYPE(n->src[i]->dtype), words[classes]);
}

/* All of one shape, as most are, or numbers after the first, which lies as a result does. */
static bool all_like_first(const qn_node *n)
{
    const qn_layout *a = &n->src[0]->layout;
    bool same = n->src[0]->root == n->src[0];
    for (int i = 1; i < n->n_src && same; i++) {
        const qn_layout *b = &n->src[i]->layout;
        same = b->rank == 0 || (a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0);
    }
    return same;
}

static qn_status broadcast(qn_node *n, qn_dtype dtype, qn_error *err)
{
    /* no larger than what there is */
    if (all_like_first(n) && qn_dtype_get(dtype)->block_bytes <= qn_dtype_get(n->src[0]->dtype)->block_bytes) {
        n->dtype = dtype;
        n->layout = n->src[0]->layout;
        return QN_OK;
    }
    qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    for (int i = 1; i < n->n_src; i++) {
        const qn_shape other = qn_layout_shape(&n->src[i]->layout);
        if (qn_shape_broadcast(&shape, &other, &shape, NULL) != QN_OK) {
            return QN_FAIL(err, invalid, "%s: %s and %s do not broadcast", OP(n),
                           i == 1 ? SHAPE(n->src[0]) : SHAPE_TEXT(&shape), SHAPE(n->src[i]));
        }
    }
    return rule_dense(n, dtype, &shape, err);
}

bool qn__op_scales(qn_op op)
{
    static const bool scales[QN_OP_COUNT] = {
        [QN_OP_mul] = true, [QN_OP_div] = true, [QN_OP_floor_divide] = true, [QN_OP_trunc_divide] = true};
    return scales[op];
}

/* A number in F32 that elements of 16 bits are multiplied with or divided by. */
static bool is_factor(const qn_node *n, int i)
{
    const qn_dtype x = n->src[0]->dtype;
    return i == 1 && n->src[1]->dtype == QN_DTYPE_F32 && n->src[1]->layout.rank == 0 && qn__op_scales(n->op) &&
           (x == QN_DTYPE_F16 || x == QN_DTYPE_BF16);
}

/* Sources of one dtype, of one of these classes. */
static qn_status alike(const qn_node *n, int classes, qn_error *err)
{
    for (int i = 0; i < n->n_src; i++) {
        QN_TRY(want_class(n, i, classes, err));
        if (n->src[i]->dtype != n->src[0]->dtype && !is_factor(n, i)) {
            return QN_FAIL(err, invalid, "%s: %s is %s and %s is %s, one dtype expected", OP(n), ordinal[0],
                           DTYPE(n->src[0]->dtype), ordinal[i], DTYPE(n->src[i]->dtype));
        }
    }
    return QN_OK;
}

static qn_status like_sources(qn_node *n, int classes, qn_error *err)
{
    QN_TRY(alike(n, classes, err));
    return broadcast(n, n->src[0]->dtype, err);
}

qn_status qn__rule_pw_any(qn_node *n, qn_error *err) { return like_sources(n, REAL | INTEGER | BOOLEAN, err); }
qn_status qn__rule_pw_number(qn_node *n, qn_error *err) { return like_sources(n, REAL | INTEGER, err); }
qn_status qn__rule_pw_real(qn_node *n, qn_error *err) { return like_sources(n, REAL, err); }
qn_status qn__rule_pw_integer(qn_node *n, qn_error *err) { return like_sources(n, INTEGER, err); }
qn_status qn__rule_pw_bits(qn_node *n, qn_error *err) { return like_sources(n, INTEGER | BOOLEAN, err); }

qn_status qn__rule_pw_truth(qn_node *n, qn_error *err)
{
    QN_TRY(alike(n, REAL | INTEGER | BOOLEAN, err));
    return broadcast(n, QN_DTYPE_BOOL, err);
}

qn_status qn__rule_clamp(qn_node *n, qn_error *err)
{
    const qn_clamp_attrs *a = n->attrs;
    if (isnan(a->min) || isnan(a->max))
        return QN_FAIL(err, invalid, "clamp: %g to %g, numbers expected", a->min, a->max);
    return qn__rule_pw_number(n, err);
}

static qn_status want_mask(const qn_node *n, int i, const char *what, qn_error *err)
{
    if (n->src[i]->dtype == QN_DTYPE_BOOL) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, BOOL expected", OP(n), what, DTYPE(n->src[i]->dtype));
}

qn_status qn__rule_where(qn_node *n, qn_error *err)
{
    QN_TRY(want_mask(n, 0, "the condition", err));
    QN_TRY(rule_plain(n, 1, "a", err));
    QN_TRY(rule_same_dtype(n, 1, 2, err));
    return broadcast(n, n->src[1]->dtype, err);
}

qn_status qn__rule_masked_fill(qn_node *n, qn_error *err)
{
    const qn_shape x = qn_layout_shape(&n->src[0]->layout), mask = qn_layout_shape(&n->src[1]->layout);
    qn_shape both;
    QN_TRY(rule_plain(n, 0, "x", err));
    QN_TRY(want_mask(n, 1, "the mask", err));
    if (qn_shape_broadcast(&x, &mask, &both, NULL) != QN_OK || !qn_shape_equal(&x, &both)) {
        return QN_FAIL(err, invalid, "masked_fill: the mask %s does not broadcast to %s", SHAPE(n->src[1]),
                       SHAPE(n->src[0]));
    }
    return rule_dense(n, n->src[0]->dtype, &x, err);
}

static qn_status made_of_nothing(qn_node *n, int32_t dtype, const qn_shape *shape, qn_error *err)
{
    if ((unsigned)dtype >= QN_DTYPE_COUNT || qn_dtype_get((qn_dtype)dtype)->class_ == QN_CLASS_block) {
        return QN_FAIL(err, invalid, "%s: dtype %s, not a block format expected", OP(n), DTYPE((qn_dtype)dtype));
    }
    return rule_dense(n, (qn_dtype)dtype, shape, err);
}

qn_status qn__rule_full(qn_node *n, qn_error *err)
{
    const qn_full_attrs *a = n->attrs;
    qn_shape shape = {.rank = a->rank};
    for (int i = 0; i < QN_MAX_RANK; i++) shape.dim[i] = i < a->rank ? a->dim[i] : 0;
    return made_of_nothing(n, a->dtype, &shape, err);
}

qn_status qn__rule_arange(qn_node *n, qn_error *err)
{
    const qn_arange_attrs *a = n->attrs;
    return made_of_nothing(n, a->dtype, &qn_shape_of(a->n), err);
}
