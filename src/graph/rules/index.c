/* SPDX-License-Identifier: MIT */
/* src/graph/rules/index.c -- what indexing, joining, sorting, padding and random numbers accept and yield. */
#include "graph/rules/rules.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *qn__combine_name(int32_t mode)
{
    static const char *const names[QN_COMBINE_COUNT] = {
#define QN_COMBINE_NAME(name) #name,
        QN_COMBINE_ROWS(QN_COMBINE_NAME)
#undef QN_COMBINE_NAME
    };
    return (uint32_t)mode < QN_COMBINE_COUNT ? names[mode] : "?";
}

const char *qn__strict_name(int32_t strict)
{
    static const char *const names[QN_STRICT_COUNT] = {"?",
#define QN_STRICT_NAME(name) #name,
                                                       QN_STRICT_ROWS(QN_STRICT_NAME)
#undef QN_STRICT_NAME
    };
    return (uint32_t)strict < QN_STRICT_COUNT ? names[strict] : "?";
}

/* Where the strictness of those ops that can be strict stands in their attributes. */
static const struct {
    qn_op op;
    size_t at;
} strict_ops[] = {
    {QN_OP_gather, offsetof(qn_index_attrs, strict)},
    {QN_OP_scatter, offsetof(qn_index_attrs, strict)},
    {QN_OP_index_select, offsetof(qn_index_attrs, strict)},
    {QN_OP_index_add, offsetof(qn_index_attrs, strict)},
    {QN_OP_flat_index, offsetof(qn_flat_attrs, strict)},
    {QN_OP_embedding_bag, offsetof(qn_bag_attrs, strict)},
    {QN_OP_cross_entropy, offsetof(qn_cross_entropy_attrs, strict)},
    {QN_OP_floor_divide, offsetof(qn_strict_attrs, strict)},
    {QN_OP_trunc_divide, offsetof(qn_strict_attrs, strict)},
    {QN_OP_remainder, offsetof(qn_strict_attrs, strict)},
    {QN_OP_fmod, offsetof(qn_strict_attrs, strict)},
    {QN_OP_expect_range, offsetof(qn_range_attrs, strict)},
    {QN_OP_binary_cross_entropy, offsetof(qn_strict_attrs, strict)},
    {QN_OP_linear_experts, offsetof(qn_strict_attrs, strict)},
};

bool qn__may_stop(const qn_node *n)
{
    for (size_t i = 0; i < sizeof strict_ops / sizeof strict_ops[0]; i++) {
        int32_t strict;
        if (strict_ops[i].op != n->op) continue;
        memcpy(&strict, (const char *)n->attrs + strict_ops[i].at, sizeof strict);
        return strict != QN_STRICT_not;
    }
    return false;
}

static qn_status check_mode(const qn_node *n, int32_t mode, qn_error *err)
{
    if ((uint32_t)mode < QN_COMBINE_COUNT) return QN_OK;
    return QN_FAIL(err, invalid, "%s: mode %d, 0 to %d expected", OP(n), mode, QN_COMBINE_COUNT - 1);
}

/* ---- reading and writing by index ---- */

/* Index tensors of gather and scatter: x's rank; where `within`, not larger than x but along dim. */
static qn_status check_ids(const qn_node *n, int dim, qn_error *err)
{
    const qn_layout *x = &n->src[0]->layout, *ids = &n->src[1]->layout;
    QN_TRY(rule_ids(n, 1, "ids", err));
    QN_TRY(rule_dim(n, 0, dim, err));
    QN_TRY(rule_rank(n, 1, "ids", x->rank, x->rank, err));
    for (int i = 0; i < x->rank; i++) {
        if (i == dim || ids->dim[i] <= x->dim[i]) continue;
        return QN_FAIL(err, invalid, "%s: ids %s are larger than %s in dimension %d", OP(n), SHAPE(n->src[1]),
                       SHAPE(n->src[0]), i);
    }
    return QN_OK;
}

qn_status qn__rule_gather(qn_node *n, qn_error *err)
{
    QN_TRY(rule_plain(n, 0, "x", err));
    QN_TRY(check_ids(n, ((const qn_index_attrs *)n->attrs)->dim, err));
    const qn_shape shape = qn_layout_shape(&n->src[1]->layout);
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}

qn_status qn__rule_scatter(qn_node *n, qn_error *err)
{
    const qn_index_attrs *a = n->attrs;
    const qn_layout *ids = &n->src[1]->layout, *src = &n->src[2]->layout;
    QN_TRY(rule_plain(n, 0, "x", err));
    QN_TRY(check_mode(n, a->mode, err));
    QN_TRY(check_ids(n, a->dim, err));
    QN_TRY(rule_same_dtype(n, 0, 2, err));
    QN_TRY(rule_rank(n, 2, "src", ids->rank, ids->rank, err));
    for (int i = 0; i < ids->rank; i++) {
        if (ids->dim[i] <= src->dim[i]) continue;
        return QN_FAIL(err, invalid, "scatter: ids %s are larger than src %s in dimension %d", SHAPE(n->src[1]),
                       SHAPE(n->src[2]), i);
    }
    return rule_like(n, n->src[0], err);
}

static qn_shape with_dim(const qn_node *x, int dim, int64_t size)
{
    qn_shape s = qn_layout_shape(&x->layout);
    if (s.rank > 0) s.dim[dim] = size;
    return s;
}

static int64_t count_ids(const qn_node *ids) { return ids->layout.rank > 0 ? ids->layout.dim[0] : 1; }

qn_status qn__rule_index_select(qn_node *n, qn_error *err)
{
    const int dim = ((const qn_index_attrs *)n->attrs)->dim;
    QN_TRY(rule_plain(n, 0, "x", err));
    QN_TRY(rule_dim(n, 0, dim, err));
    QN_TRY(rule_rank(n, 0, "x", 1, QN_MAX_RANK, err));
    QN_TRY(rule_ids(n, 1, "ids", err));
    QN_TRY(rule_rank(n, 1, "ids", 0, 1, err));
    const qn_shape shape = with_dim(n->src[0], dim, count_ids(n->src[1]));
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}

qn_status qn__rule_index_add(qn_node *n, qn_error *err)
{
    const qn_index_attrs *a = n->attrs;
    QN_TRY(rule_plain(n, 0, "x", err));
    QN_TRY(check_mode(n, a->mode, err));
    QN_TRY(rule_dim(n, 0, a->dim, err));
    QN_TRY(rule_rank(n, 0, "x", 1, QN_MAX_RANK, err));
    QN_TRY(rule_ids(n, 1, "ids", err));
    QN_TRY(rule_rank(n, 1, "ids", 0, 1, err));
    QN_TRY(rule_same_dtype(n, 0, 2, err));
    const qn_shape want = with_dim(n->src[0], a->dim, count_ids(n->src[1]));
    QN_TRY(rule_shape(n, 2, "src", &want, err));
    return rule_like(n, n->src[0], err);
}

qn_status qn__rule_flat_index(qn_node *n, qn_error *err)
{
    const qn_flat_attrs *a = n->attrs;
    qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    int64_t numel = 1;
    for (int i = 0; i < n->n_src; i++) {
        QN_TRY(rule_ids(n, i, "an index", err));
        if (a->size[i] < 0 || (a->size[i] > 0 && __builtin_mul_overflow(numel, a->size[i], &numel))) {
            return QN_FAIL(err, invalid, "flat_index: size %lld of dimension %d is out of range", (long long)a->size[i],
                           i);
        }
        const qn_shape s = qn_layout_shape(&n->src[i]->layout);
        const qn_shape before = shape;
        if (qn_shape_broadcast(&before, &s, &shape, NULL) == QN_OK) continue;
        return QN_FAIL(err, invalid, "flat_index: indices %s and %s do not broadcast", SHAPE_TEXT(&before),
                       SHAPE(n->src[i]));
    }
    return rule_dense(n, QN_DTYPE_I64, &shape, err);
}

qn_status qn__rule_tri(qn_node *n, qn_error *err)
{
    QN_TRY(rule_plain(n, 0, "x", err));
    QN_TRY(rule_rank(n, 0, "x", 2, QN_MAX_RANK, err));
    return rule_like(n, n->src[0], err);
}

/* ---- writing parts ---- */

/* No element twice: sorted by stride, each dimension steps over all that the smaller ones reach. */
static bool distinct(const qn_layout *l)
{
    int order[QN_MAX_RANK], n = 0;
    for (int i = 0; i < l->rank; i++) {
        if (l->dim[i] == 0) return true;
        if (l->dim[i] == 1) continue;
        int at = n++;
        for (; at > 0 && llabs(l->stride[order[at - 1]]) > llabs(l->stride[i]); at--) order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t reach = 0; /* of the dimensions so far */
    for (int k = 0; k < n; k++) {
        const int64_t step = llabs(l->stride[order[k]]);
        if (step <= reach) return false;
        reach += step * (l->dim[order[k]] - 1); /* within the destination's memory: no overflow */
    }
    return true;
}

qn_status qn__rule_strided_update(qn_node *n, qn_error *err)
{
    const qn_strided_attrs *a = n->attrs;
    const qn_layout *layout = &a->layout;
    int64_t begin, end;
    QN_TRY(rule_plain(n, 0, "dst", err));
    QN_TRY(check_mode(n, a->mode, err));
    QN_TRY(rule_same_dtype(n, 0, 1, err));
    QN_TRY(qn__layout_check("strided_update", layout, err));
    const qn_shape want = qn_layout_shape(layout);
    QN_TRY(rule_shape(n, 1, "x", &want, err));
    qn_layout_range(layout, &begin, &end);
    if (begin < 0 || end > qn_layout_numel(&n->src[0]->layout)) {
        return QN_FAIL(err, invalid, "strided_update: elements %lld to %lld of dst %s", (long long)begin,
                       (long long)end, SHAPE(n->src[0]));
    }
    if (!distinct(layout)) {
        qn_shape strides = {.rank = layout->rank};
        for (int i = 0; i < layout->rank; i++) strides.dim[i] = layout->stride[i];
        return QN_FAIL(err, invalid, "strided_update: %s with strides %s would write some element twice",
                       SHAPE(n->src[1]), SHAPE_TEXT(&strides));
    }
    return rule_like(n, n->src[0], err);
}

/* Rows of whole blocks, one behind another. */
static bool in_one_piece(const qn_node *n)
{
    const qn_layout *l = &n->layout;
    const int64_t block = qn_dtype_get(n->dtype)->block_elems;
    return qn_layout_is_contiguous(l) && l->rank > 0 && l->offset % block == 0 && l->dim[l->rank - 1] % block == 0;
}

qn_status qn__rule_assign(qn_node *n, qn_error *err)
{
    const qn_node *dst = n->src[0];
    char text[QN_NODE_TEXT];
    QN_TRY(rule_same_dtype(n, 0, 1, err));
    if (qn_dtype_get(dst->dtype)->class_ == QN_CLASS_block && !(in_one_piece(dst) && in_one_piece(n->src[1])))
        return QN_FAIL(err, invalid, "assign: blocks of %s are moved in one piece, from one into one",
                       DTYPE(dst->dtype));
    const qn_shape want = qn_layout_shape(&dst->layout);
    QN_TRY(rule_shape(n, 1, "x", &want, err));
    if (!qn__is_param(dst->root, QN_NODE_mutable)) {
        return QN_FAIL(err, invalid, "assign: the destination %s is not a mutable param",
                       qn__node_text(dst->root, text));
    }
    if (!distinct(&dst->layout)) return QN_FAIL(err, invalid, "assign: dst %s shows some element twice", SHAPE(dst));
    n->dtype = dst->dtype;
    n->layout = dst->layout;
    return QN_OK;
}

static qn_status from_attrs(qn_node *n, const int64_t *dim, int32_t rank, int32_t dtype, qn_error *err)
{
    qn_shape shape = {.rank = rank};
    if (rank < 0 || rank > QN_MAX_RANK)
        return QN_FAIL(err, invalid, "%s: rank %d, 0 to %d expected", OP(n), rank, QN_MAX_RANK);
    for (int i = 0; i < rank; i++) shape.dim[i] = dim[i];
    if ((uint32_t)dtype >= QN_DTYPE_COUNT || qn_dtype_get((qn_dtype)dtype)->class_ == QN_CLASS_block) {
        return QN_FAIL(err, invalid, "%s: dtype %s, not a block format expected", OP(n), DTYPE((qn_dtype)dtype));
    }
    return rule_dense(n, (qn_dtype)dtype, &shape, err);
}

qn_status qn__rule_empty(qn_node *n, qn_error *err)
{
    const qn_empty_attrs *a = n->attrs;
    return from_attrs(n, a->dim, a->rank, a->dtype, err);
}

/* ---- order ---- */

qn_status qn__rule_argsort(qn_node *n, qn_error *err)
{
    QN_TRY(rule_plain(n, 0, "x", err));
    QN_TRY(rule_dim(n, 0, ((const qn_sort_attrs *)n->attrs)->dim, err));
    const qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    return rule_dense(n, QN_DTYPE_I64, &shape, err);
}

qn_status qn__rule_topk(qn_node *n, qn_error *err)
{
    const qn_sort_attrs *a = n->attrs;
    const qn_layout *x = &n->src[0]->layout;
    QN_TRY(rule_plain(n, 0, "x", err));
    QN_TRY(rule_dim(n, 0, a->dim, err));
    const int64_t size = x->rank > 0 ? x->dim[a->dim] : 1;
    if (a->k < 0 || a->k > size) {
        return QN_FAIL(err, invalid, "topk: k is %lld, 0 to %lld expected for dimension %d of %s", (long long)a->k,
                       (long long)size, a->dim, SHAPE(n->src[0]));
    }
    if (x->rank == 0 && a->k != 1)
        return QN_FAIL(err, invalid, "topk: k is %lld, 1 expected for a scalar", (long long)a->k);
    const qn_shape shape = with_dim(n->src[0], a->dim, a->k);
    return rule_dense(n, QN_DTYPE_I64, &shape, err);
}

/* ---- padding ---- */

qn_status qn__rule_pad(qn_node *n, qn_error *err)
{
    const qn_pad_attrs *a = n->attrs;
    qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    QN_TRY(rule_plain(n, 0, "x", err));
    for (int i = 0; i < shape.rank; i++) {
        int64_t size;
        const int64_t before = a->before[i], after = a->after[i];
        if (!__builtin_add_overflow(shape.dim[i], before, &size) && !__builtin_add_overflow(size, after, &size) &&
            size >= 0 && before >= -shape.dim[i] && after >= -shape.dim[i]) {
            shape.dim[i] = size;
            continue;
        }
        return QN_FAIL(err, invalid, "pad: %lld before and %lld after dimension %d of %s leave nothing",
                       (long long)before, (long long)after, i, SHAPE(n->src[0]));
    }
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}

qn_status qn__rule_pad_index(qn_node *n, qn_error *err)
{
    const qn_pad_index_attrs *a = n->attrs;
    const int64_t most = a->mode == QN_PAD_reflect ? a->n - 1 : a->mode == QN_PAD_circular ? a->n : QN_MAX_NUMEL;
    int64_t size;
    if ((uint32_t)a->mode > QN_PAD_circular)
        return QN_FAIL(err, invalid, "pad: mode %d, 0 to %d expected", a->mode, QN_PAD_circular);
    if (a->n < 1) return QN_FAIL(err, invalid, "pad: nothing to repeat in a dimension of size %lld", (long long)a->n);
    if (a->before > most || a->after > most || a->before < -a->n || a->after < -a->n ||
        __builtin_add_overflow(a->n, a->before, &size) || __builtin_add_overflow(size, a->after, &size) || size < 0) {
        return QN_FAIL(err, invalid, "pad: %lld before and %lld after a dimension of size %lld, at most %lld expected",
                       (long long)a->before, (long long)a->after, (long long)a->n, (long long)most);
    }
    return rule_dense(n, QN_DTYPE_I64, &qn_shape_of(size), err);
}

/* ---- random numbers ---- */

qn_status qn__rule_random(qn_node *n, qn_error *err)
{
    const qn_random_attrs *a = n->attrs;
    const double whole = 9007199254740992.0;
    QN_TRY(from_attrs(n, a->dim, a->rank, a->dtype, err));
    if (n->src[0]->dtype != QN_DTYPE_I64)
        return QN_FAIL(err, invalid, "random: state is %s, I64 expected", DTYPE(n->src[0]->dtype));
    QN_TRY(rule_shape(n, 0, "state", &qn_shape_of(2), err));
    const qn_dtype_class class = rule_class(n);
    if ((uint32_t)a->kind > QN_RANDOM_bits)
        return QN_FAIL(err, invalid, "random: kind %d, 0 to %d expected", a->kind, QN_RANDOM_bits);
    if (!isfinite(a->a) || !isfinite(a->b))
        return QN_FAIL(err, invalid, "random: %g and %g, finite numbers expected", a->a, a->b);
    const bool real_only = a->kind == QN_RANDOM_uniform || a->kind == QN_RANDOM_normal;
    if ((real_only && class != QN_CLASS_real) || (a->kind == QN_RANDOM_bits && class != QN_CLASS_integer)) {
        return QN_FAIL(err, invalid, "random: a result of %s, a%s type expected", DTYPE(n->dtype),
                       real_only ? " real" : "n integer");
    }
    if (a->kind == QN_RANDOM_integer &&
        (a->a != rint(a->a) || a->b != rint(a->b) || a->a >= a->b || fabs(a->a) > whole || fabs(a->b) > whole)) {
        return QN_FAIL(err, invalid, "random: integers from %g up to %g, whole numbers in order expected", a->a, a->b);
    }
    if (a->kind == QN_RANDOM_bernoulli && !(a->a >= 0 && a->a <= 1))
        return QN_FAIL(err, invalid, "random: probability %g, 0 to 1 expected", a->a);
    if (a->kind == QN_RANDOM_normal && a->b < 0)
        return QN_FAIL(err, invalid, "random: deviation %g, 0 or more expected", a->b);
    return QN_OK;
}
