/* SPDX-License-Identifier: MIT */
/* src/graph/rules/conv.c -- what convolution, pooling, resizing and bags of embeddings accept and yield. */
#include "graph/rules/rules.h"
#include <math.h>

/* Far above any sensible window; keeps every product of these inside int64. */
#define MOST (INT64_C(1) << 31)

static qn_status check_window(const qn_node *n, const char *what, const int64_t *v, int n_spatial, int64_t least,
                              qn_error *err)
{
    for (int i = 0; i < n_spatial; i++) {
        if (v[i] >= least && v[i] < MOST) continue;
        return QN_FAIL(err, invalid, "%s: %s %lld, %lld or more expected", OP(n), what, (long long)v[i],
                       (long long)least);
    }
    return QN_OK;
}

static qn_status check_spatial(const qn_node *n, int32_t n_spatial, qn_error *err)
{
    if (n_spatial >= 1 && n_spatial <= 3) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %d spatial dimensions, 1 to 3 expected", OP(n), n_spatial);
}

/* ---- convolution ---- */

static qn_status check_conv(const qn_node *n, qn_error *err)
{
    const qn_conv_attrs *a = n->attrs;
    QN_TRY(check_spatial(n, a->n_spatial, err));
    QN_TRY(check_window(n, "stride", a->stride, a->n_spatial, 1, err));
    QN_TRY(check_window(n, "padding", a->padding, a->n_spatial, 0, err));
    QN_TRY(check_window(n, "dilation", a->dilation, a->n_spatial, 1, err));
    QN_TRY(check_window(n, "size", a->size, a->n_spatial, 0, err));
    if (a->groups < 1) return QN_FAIL(err, invalid, "%s: %d groups, 1 or more expected", OP(n), a->groups);
    for (int i = 0; i < n->n_src; i++) QN_TRY(rule_real(n, i, i == 0 ? "x" : i == 1 ? "w" : "bias", err));
    QN_TRY(rule_same_dtype(n, 0, 1, err));
    QN_TRY(rule_rank(n, 0, "x", a->n_spatial + 2, a->n_spatial + 2, err));
    return rule_rank(n, 1, "w", a->n_spatial + 2, a->n_spatial + 2, err);
}

/* The spatial size of a convolution's result. */
static qn_status conv_size(const qn_node *n, int i, int64_t in, int64_t kernel, int64_t *out, qn_error *err)
{
    const qn_conv_attrs *a = n->attrs;
    const int64_t reach = a->dilation[i] * (kernel - 1) + 1, room = in + 2 * a->padding[i];
    if (kernel < 1 || kernel >= MOST || in >= MOST || reach > room) {
        return QN_FAIL(
            err, invalid,
            "%s: a kernel that reaches over %lld does not fit into %lld (with padding) of spatial dimension %d", OP(n),
            (long long)reach, (long long)room, i);
    }
    *out = (room - reach) / a->stride[i] + 1;
    return QN_OK;
}

static qn_status check_groups(const qn_node *n, int64_t channels, int64_t out, int64_t of_weight, qn_error *err)
{
    const qn_conv_attrs *a = n->attrs;
    if (channels % a->groups != 0 || out % a->groups != 0) {
        return QN_FAIL(err, invalid, "%s: %lld channels in and %lld out don't divide into %d groups", OP(n),
                       (long long)channels, (long long)out, a->groups);
    }
    if (channels / a->groups == of_weight) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s x %s: %lld channels a group, the weight has %lld", OP(n), SHAPE(n->src[0]),
                   SHAPE(n->src[1]), (long long)(channels / a->groups), (long long)of_weight);
}

static qn_status check_bias(const qn_node *n, int64_t channels, qn_error *err)
{
    if (n->n_src < 3) return QN_OK;
    QN_TRY(rule_same_dtype(n, 0, 2, err));
    return rule_shape(n, 2, "bias", &qn_shape_of(channels), err);
}

qn_status qn__rule_conv(qn_node *n, qn_error *err)
{
    QN_TRY(check_conv(n, err));
    const qn_conv_attrs *a = n->attrs;
    const qn_layout *x = &n->src[0]->layout, *w = &n->src[1]->layout;
    QN_TRY(check_groups(n, x->dim[1], w->dim[0], w->dim[1], err));
    QN_TRY(check_bias(n, w->dim[0], err));
    qn_shape shape = {.rank = x->rank, .dim = {x->dim[0], w->dim[0]}};
    for (int i = 0; i < a->n_spatial; i++)
        QN_TRY(conv_size(n, i, x->dim[2 + i], w->dim[2 + i], &shape.dim[2 + i], err));
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}

qn_status qn__rule_conv_input(qn_node *n, qn_error *err)
{
    QN_TRY(check_conv(n, err));
    const qn_conv_attrs *a = n->attrs;
    const qn_layout *y = &n->src[0]->layout, *w = &n->src[1]->layout;
    if (y->dim[1] != w->dim[0] || y->dim[1] % a->groups != 0) {
        return QN_FAIL(err, invalid, "conv_input: %s x %s: %lld channels, the weight has %lld, in %d groups",
                       SHAPE(n->src[0]), SHAPE(n->src[1]), (long long)y->dim[1], (long long)w->dim[0], a->groups);
    }
    qn_shape shape = {.rank = y->rank, .dim = {y->dim[0]}};
    if (__builtin_mul_overflow(w->dim[1], (int64_t)a->groups, &shape.dim[1]))
        return QN_FAIL(err, limit, "conv_input: too many channels");
    QN_TRY(check_bias(n, shape.dim[1], err));
    for (int i = 0; i < a->n_spatial; i++) {
        int64_t back = 0;
        QN_TRY(conv_size(n, i, a->size[i], w->dim[2 + i], &back, err));
        if (back != y->dim[2 + i]) {
            return QN_FAIL(err, invalid,
                           "conv_input: a result of size %lld in spatial dimension %d belongs to %lld, not to %s",
                           (long long)a->size[i], i, (long long)back, SHAPE(n->src[0]));
        }
        shape.dim[2 + i] = a->size[i];
    }
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}

qn_status qn__rule_conv_weight(qn_node *n, qn_error *err)
{
    QN_TRY(check_conv(n, err));
    const qn_conv_attrs *a = n->attrs;
    const qn_layout *x = &n->src[0]->layout, *y = &n->src[1]->layout;
    if (x->dim[0] != y->dim[0] || x->dim[1] % a->groups != 0 || y->dim[1] % a->groups != 0) {
        return QN_FAIL(err, invalid, "conv_weight: %s and %s: batches or channels in %d groups don't fit",
                       SHAPE(n->src[0]), SHAPE(n->src[1]), a->groups);
    }
    qn_shape shape = {.rank = x->rank, .dim = {y->dim[1], x->dim[1] / a->groups}};
    for (int i = 0; i < a->n_spatial; i++) {
        int64_t out = 0;
        QN_TRY(conv_size(n, i, x->dim[2 + i], a->size[i], &out, err));
        if (out != y->dim[2 + i]) {
            return QN_FAIL(err, invalid, "conv_weight: spatial dimension %d gives %lld, y is %s", i, (long long)out,
                           SHAPE(n->src[1]));
        }
        shape.dim[2 + i] = a->size[i];
    }
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}

/* ---- pooling ---- */

static qn_status pool_size(const qn_node *n, int i, int64_t in, int64_t *out, qn_error *err)
{
    const qn_pool_attrs *a = n->attrs;
    if (a->adaptive) {
        if (in < 1 && a->size[i] > 0) return QN_FAIL(err, invalid, "%s: spatial dimension %d is empty", OP(n), i);
        *out = a->size[i];
        return QN_OK;
    }
    const int64_t reach = a->dilation[i] * (a->kernel[i] - 1) + 1, room = in + 2 * a->padding[i] - reach;
    if (a->padding[i] * 2 > a->kernel[i]) {
        return QN_FAIL(err, invalid, "%s: padding %lld is more than half of the window %lld", OP(n),
                       (long long)a->padding[i], (long long)a->kernel[i]);
    }
    /* As in PyTorch: rounded up, a window may reach over the end, the first one too. It starts inside. */
    const int64_t steps = room + (a->ceil_mode ? a->stride[i] - 1 : 0);
    *out = steps < 0 ? 0 : steps / a->stride[i] + 1;
    if (a->ceil_mode && (*out - 1) * a->stride[i] >= in + a->padding[i]) --*out;
    if (*out < 1 || in >= MOST) {
        return QN_FAIL(err, invalid,
                       "%s: a window that reaches over %lld leaves nothing of %lld in spatial dimension %d", OP(n),
                       (long long)reach, (long long)in, i);
    }
    return QN_OK;
}

static qn_status check_pool(const qn_node *n, qn_error *err)
{
    const qn_pool_attrs *a = n->attrs;
    QN_TRY(check_spatial(n, a->n_spatial, err));
    QN_TRY(rule_real(n, 0, "x", err));
    QN_TRY(rule_rank(n, 0, "x", a->n_spatial + 2, a->n_spatial + 2, err));
    if ((uint32_t)a->kind > QN_POOL_argmax)
        return QN_FAIL(err, invalid, "%s: kind %d, 0 to %d expected", OP(n), a->kind, QN_POOL_argmax);
    QN_TRY(check_window(n, "size", a->size, a->n_spatial, 0, err));
    if (a->adaptive) return QN_OK;
    QN_TRY(check_window(n, "window", a->kernel, a->n_spatial, 1, err));
    QN_TRY(check_window(n, "stride", a->stride, a->n_spatial, 1, err));
    QN_TRY(check_window(n, "padding", a->padding, a->n_spatial, 0, err));
    return check_window(n, "dilation", a->dilation, a->n_spatial, 1, err);
}

qn_status qn__rule_pool(qn_node *n, qn_error *err)
{
    QN_TRY(check_pool(n, err));
    const qn_pool_attrs *a = n->attrs;
    const qn_layout *x = &n->src[0]->layout;
    qn_shape shape = qn_layout_shape(x);
    for (int i = 0; i < a->n_spatial; i++) QN_TRY(pool_size(n, i, x->dim[2 + i], &shape.dim[2 + i], err));
    return rule_dense(n, a->kind == QN_POOL_argmax ? QN_DTYPE_I64 : n->src[0]->dtype, &shape, err);
}

qn_status qn__rule_pool_back(qn_node *n, qn_error *err)
{
    QN_TRY(check_pool(n, err));
    const qn_pool_attrs *a = n->attrs;
    const qn_layout *y = &n->src[0]->layout;
    qn_shape shape = qn_layout_shape(y);
    const bool max = a->kind == QN_POOL_max;
    if (a->kind == QN_POOL_argmax || max != (n->n_src == 2)) {
        return QN_FAIL(err, invalid, "pool_back: kind %d with %d sources, max with 2 or avg with 1 expected", a->kind,
                       n->n_src);
    }
    for (int i = 0; i < a->n_spatial; i++) {
        shape.dim[2 + i] = a->size[i];
        if (a->adaptive) { /* the result's size is y's own */
            if (a->size[i] < 1 && y->dim[2 + i] > 0)
                return QN_FAIL(err, invalid, "pool_back: spatial dimension %d is empty", i);
            continue;
        }
        int64_t out = 0;
        QN_TRY(pool_size(n, i, a->size[i], &out, err));
        if (out != y->dim[2 + i]) {
            return QN_FAIL(err, invalid, "pool_back: spatial dimension %d of size %lld gives %lld, y is %s", i,
                           (long long)a->size[i], (long long)out, SHAPE(n->src[0]));
        }
    }
    if (max) {
        QN_TRY(rule_same_dtype(n, 0, 1, err));
        QN_TRY(rule_shape(n, 1, "x", &shape, err));
    }
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}

/* ---- resizing ---- */

static qn_status resized(qn_node *n, qn_error *err)
{
    const qn_upsample_attrs *a = n->attrs;
    QN_TRY(check_spatial(n, a->n_spatial, err));
    QN_TRY(rule_real(n, 0, "x", err));
    QN_TRY(rule_rank(n, 0, "x", a->n_spatial + 2, a->n_spatial + 2, err));
    if ((uint32_t)a->mode > QN_UPSAMPLE_linear)
        return QN_FAIL(err, invalid, "%s: mode %d, 0 or 1 expected", OP(n), a->mode);
    QN_TRY(check_window(n, "size", a->size, a->n_spatial, 1, err));
    qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    for (int i = 0; i < a->n_spatial; i++) {
        if (!(a->scale[i] >= 0) || !isfinite(a->scale[i]))
            return QN_FAIL(err, invalid, "%s: scale %g, 0 or more expected", OP(n), a->scale[i]);
        if (shape.dim[2 + i] < 1 || shape.dim[2 + i] >= MOST)
            return QN_FAIL(err, invalid, "%s: spatial dimension %d of %s", OP(n), i, SHAPE(n->src[0]));
        shape.dim[2 + i] = a->size[i];
    }
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}

qn_status qn__rule_upsample(qn_node *n, qn_error *err) { return resized(n, err); }
qn_status qn__rule_upsample_back(qn_node *n, qn_error *err) { return resized(n, err); }

/* ---- bags of embeddings ---- */

/* Sources from `ids` on: ids, offsets, and weights where `weights` is not 0. */
static qn_status check_bag(const qn_node *n, int ids, int weights, qn_error *err)
{
    const qn_bag_attrs *a = n->attrs;
    if ((uint32_t)a->mode > QN_BAG_max)
        return QN_FAIL(err, invalid, "%s: mode %d, 0 to %d expected", OP(n), a->mode, QN_BAG_max);
    QN_TRY(rule_ids(n, ids, "ids", err));
    QN_TRY(rule_ids(n, ids + 1, "offsets", err));
    QN_TRY(rule_rank(n, ids, "ids", 1, 1, err));
    QN_TRY(rule_rank(n, ids + 1, "offsets", 1, 1, err));
    if (a->include_last && n->src[ids + 1]->layout.dim[0] < 1)
        return QN_FAIL(err, invalid, "%s: offsets are empty, the last one is missing", OP(n));
    if (weights == 0) return QN_OK;
    if (a->mode != QN_BAG_sum)
        return QN_FAIL(err, invalid, "%s: weights with mode %d, only sums are weighted", OP(n), a->mode);
    QN_TRY(rule_same_dtype(n, 0, weights, err));
    const qn_shape want = qn_layout_shape(&n->src[ids]->layout);
    return rule_shape(n, weights, "weights", &want, err);
}

static int64_t n_bags(const qn_node *offsets, const qn_bag_attrs *a)
{
    return offsets->layout.dim[0] - (a->include_last ? 1 : 0);
}

qn_status qn__rule_embedding_bag(qn_node *n, qn_error *err)
{
    QN_TRY(rule_real(n, 0, "table", err));
    QN_TRY(rule_rank(n, 0, "table", 2, 2, err));
    QN_TRY(check_bag(n, 1, n->n_src > 3 ? 3 : 0, err));
    return rule_dense(n, n->src[0]->dtype, &qn_shape_of(n_bags(n->src[2], n->attrs), n->src[0]->layout.dim[1]), err);
}

/* y, ids, offsets, then weights (mode sum) or the table (mode max). */
qn_status qn__rule_embedding_bag_back(qn_node *n, qn_error *err)
{
    const qn_bag_attrs *a = n->attrs;
    const bool max = a->mode == QN_BAG_max;
    QN_TRY(rule_real(n, 0, "y", err));
    QN_TRY(check_bag(n, 1, n->n_src > 3 && !max ? 3 : 0, err));
    QN_TRY(rule_rank(n, 0, "y", 2, 2, err));
    if (n->src[0]->layout.dim[0] != n_bags(n->src[2], a)) {
        return QN_FAIL(err, invalid, "embedding_bag_back: y is %s, %lld bags expected", SHAPE(n->src[0]),
                       (long long)n_bags(n->src[2], a));
    }
    if (max != (n->n_src > 3 && max))
        return QN_FAIL(err, invalid, "embedding_bag_back: the table is missing, which mode max needs");
    if (a->n_rows < 0) return QN_FAIL(err, invalid, "embedding_bag_back: %lld rows", (long long)a->n_rows);
    const qn_shape shape = qn_shape_of(a->n_rows, n->src[0]->layout.dim[1]);
    if (max) {
        QN_TRY(rule_same_dtype(n, 0, 3, err));
        QN_TRY(rule_shape(n, 3, "table", &shape, err));
    }
    return rule_dense(n, n->src[0]->dtype, &shape, err);
}
