/* SPDX-License-Identifier: MIT */
/* src/graph/rules/rules.c -- what each op accepts and yields: one function a rule named in ops.def.
 * A rule reads n->op, attrs, src and n_src, writes n->dtype and n->layout, and is deterministic: the verifier runs it
 * again. Sources belong to the graph and have passed their own rules. */
#include "graph/internal.h"
#include <math.h>
#include <string.h>

/* ---- words for messages ---- */

typedef struct shape_text {
    char s[QN_SHAPE_TEXT];
} shape_text;
#define SHAPE(n) qn__layout_print(&(n)->layout, (shape_text){{0}}.s)
#define OP(n)    (qn__op_info((n)->op)->name)
#define DTYPE(d) (qn_dtype_get(d)->name)

static qn_dtype_class class_of(const qn_node *n) { return qn_dtype_get(n->dtype)->class_; }
static bool is_number(const qn_node *n) { return class_of(n) == QN_CLASS_real || class_of(n) == QN_CLASS_block; }

static qn_status want_dtype(const qn_node *n, int i, const char *what, qn_dtype dtype, qn_error *err)
{
    if (n->src[i]->dtype == dtype) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, %s expected", OP(n), what, DTYPE(n->src[i]->dtype), DTYPE(dtype));
}

static qn_status want_number(const qn_node *n, int i, const char *what, qn_error *err)
{
    if (is_number(n->src[i])) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, a real or block type expected", OP(n), what, DTYPE(n->src[i]->dtype));
}

static qn_status want_rank(const qn_node *n, int i, const char *what, int rank, qn_error *err)
{
    if (n->src[i]->layout.rank == rank) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, %d dimension%s expected", OP(n), what, SHAPE(n->src[i]), rank,
                   rank == 1 ? "" : "s");
}

static qn_status want_shape(const qn_node *n, int i, const char *what, qn_shape want, qn_error *err)
{
    const qn_shape have = qn_layout_shape(&n->src[i]->layout);
    if (qn_shape_equal(&have, &want)) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, %s expected", OP(n), what, SHAPE(n->src[i]),
                   qn_shape_print(&want, (shape_text){{0}}.s, QN_SHAPE_TEXT));
}

static int64_t last_dim(const qn_node *n) { return n->layout.dim[n->layout.rank - 1]; }

/* ---- what every result must be ---- */

static qn_status check_dtype(const qn_node *n, qn_dtype dtype, qn_error *err)
{
    if ((unsigned)dtype < QN_DTYPE_COUNT) return QN_OK;
    return QN_FAIL(err, invalid, "%s: dtype %d does not exist", OP(n), (int)dtype);
}

/* Whole blocks a row, and a size that a byte count can hold. */
static qn_status check_bytes(const qn_node *n, qn_error *err)
{
    const qn_dtype_info *info = qn_dtype_get(n->dtype);
    if (info->block_elems > 1 && (n->layout.rank == 0 || last_dim(n) % info->block_elems != 0)) {
        return QN_FAIL(err, invalid, "%s: rows of %s in %s don't divide into blocks of %d", OP(n), SHAPE(n), info->name,
                       info->block_elems);
    }
    if (qn__node_bytes(n) < 0)
        return QN_FAIL(err, limit, "%s: %s %s takes more than 2^63 bytes", OP(n), info->name, SHAPE(n));
    return QN_OK;
}

static qn_status dense(qn_node *n, qn_dtype dtype, const qn_shape *shape, qn_error *err)
{
    n->dtype = dtype;
    QN_TRY(qn_layout_contiguous(shape, &n->layout, err));
    return check_bytes(n, err);
}

/* ---- leaves, views, copies ---- */

qn_status qn__rule_leaf(qn_node *n, qn_error *err)
{
    QN_TRY(check_dtype(n, n->dtype, err));
    const qn_shape shape = qn_layout_shape(&n->layout);
    return dense(n, n->dtype, &shape, err);
}

qn_status qn__rule_view(qn_node *n, qn_error *err)
{
    const qn_layout *layout = &((const qn_view_attrs *)n->attrs)->layout;
    const qn_node *root = n->src[0]->root;
    int64_t begin, end;
    QN_TRY(qn__layout_check("view", layout, err));
    n->dtype = n->src[0]->dtype;
    n->layout = *layout;
    QN_TRY(check_bytes(n, err));
    qn_layout_range(layout, &begin, &end);
    if (begin < 0 || end > qn_layout_numel(&root->layout)) {
        return QN_FAIL(err, invalid, "view: elements %lld to %lld of memory of %s", (long long)begin, (long long)end,
                       SHAPE(root));
    }
    const int block = qn_dtype_get(n->dtype)->block_elems;
    if (block == 1 || begin == end) return QN_OK;
    bool whole = layout->offset % block == 0 && layout->stride[layout->rank - 1] == 1;
    for (int i = 0; i < layout->rank - 1; i++) whole = whole && (layout->dim[i] == 1 || layout->stride[i] % block == 0);
    if (whole) return QN_OK;
    return QN_FAIL(err, invalid, "view: %s %s cuts through blocks of %d", DTYPE(n->dtype), SHAPE(n), block);
}

qn_status qn__rule_like_dense(qn_node *n, qn_error *err)
{
    if (qn__op_info(n->op)->kind == QN_KIND_compute) QN_TRY(want_dtype(n, 0, "x", QN_DTYPE_F32, err));
    const qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    return dense(n, n->src[0]->dtype, &shape, err);
}

qn_status qn__rule_scale(qn_node *n, qn_error *err)
{
    const qn_scale_attrs *a = n->attrs;
    if (!isfinite(a->scale) || !isfinite(a->bias)) {
        return QN_FAIL(err, invalid, "scale: factor %g and bias %g, finite numbers expected", (double)a->scale,
                       (double)a->bias);
    }
    return qn__rule_like_dense(n, err);
}

qn_status qn__rule_copy(qn_node *n, qn_error *err)
{
    const qn_dtype to = (qn_dtype)((const qn_copy_attrs *)n->attrs)->dtype, from = n->src[0]->dtype;
    QN_TRY(check_dtype(n, to, err));
    const qn_dtype_class class = qn_dtype_get(to)->class_;
    if (to != from) {
        const bool scalars = class != QN_CLASS_block && class_of(n->src[0]) != QN_CLASS_block;
        const bool writable = class == QN_CLASS_real || (class == QN_CLASS_block && qn_dtype_can_pack(to));
        if (!scalars && (!is_number(n->src[0]) || !writable)) {
            return QN_FAIL(err, invalid, "copy: %s cannot be converted to %s", DTYPE(from), DTYPE(to));
        }
    }
    const qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    return dense(n, to, &shape, err);
}

/* ---- products and sums ---- */

qn_status qn__rule_get_rows(qn_node *n, qn_error *err)
{
    QN_TRY(want_number(n, 0, "table", err));
    QN_TRY(want_rank(n, 0, "table", 2, err));
    QN_TRY(want_dtype(n, 1, "ids", QN_DTYPE_I32, err));
    QN_TRY(want_rank(n, 1, "ids", 1, err));
    return dense(n, QN_DTYPE_F32, &qn_shape_of(n->src[1]->layout.dim[0], n->src[0]->layout.dim[1]), err);
}

qn_status qn__rule_linear(qn_node *n, qn_error *err)
{
    const qn_node *x = n->src[0], *w = n->src[1];
    QN_TRY(want_dtype(n, 0, "x", QN_DTYPE_F32, err));
    QN_TRY(want_number(n, 1, "w", err));
    QN_TRY(want_rank(n, 1, "w", 2, err));
    if (x->layout.rank < 1) return QN_FAIL(err, invalid, "linear: x is a scalar, at least 1 dimension expected");
    if (last_dim(x) != w->layout.dim[1]) {
        return QN_FAIL(err, invalid, "linear: %s x %s: inner sizes %lld and %lld differ", SHAPE(x), SHAPE(w),
                       (long long)last_dim(x), (long long)w->layout.dim[1]);
    }
    if (n->n_src > 2) {
        QN_TRY(want_dtype(n, 2, "bias", QN_DTYPE_F32, err));
        QN_TRY(want_shape(n, 2, "bias", qn_shape_of(w->layout.dim[0]), err));
    }
    qn_shape shape = qn_layout_shape(&x->layout);
    shape.dim[shape.rank - 1] = w->layout.dim[0];
    return dense(n, QN_DTYPE_F32, &shape, err);
}

qn_status qn__rule_linear_input(qn_node *n, qn_error *err)
{
    const qn_node *y = n->src[0], *w = n->src[1];
    QN_TRY(want_dtype(n, 0, "y", QN_DTYPE_F32, err));
    QN_TRY(want_number(n, 1, "w", err));
    QN_TRY(want_rank(n, 1, "w", 2, err));
    if (y->layout.rank < 1) return QN_FAIL(err, invalid, "linear_input: y is a scalar, at least 1 dimension expected");
    if (last_dim(y) != w->layout.dim[0]) {
        return QN_FAIL(err, invalid, "linear_input: %s x %s: inner sizes %lld and %lld differ", SHAPE(y), SHAPE(w),
                       (long long)last_dim(y), (long long)w->layout.dim[0]);
    }
    qn_shape shape = qn_layout_shape(&y->layout);
    shape.dim[shape.rank - 1] = w->layout.dim[1];
    return dense(n, QN_DTYPE_F32, &shape, err);
}

qn_status qn__rule_norm(qn_node *n, qn_error *err)
{
    const qn_dtype dtype = n->src[0]->dtype;
    const double given = ((const qn_norm_attrs *)n->attrs)->eps, eps = dtype == QN_DTYPE_F64 ? given : (float)given;
    if (dtype != QN_DTYPE_F64) QN_TRY(want_dtype(n, 0, "x", QN_DTYPE_F32, err));
    if (n->src[0]->layout.rank < 1)
        return QN_FAIL(err, invalid, "%s: x is a scalar, at least 1 dimension expected", OP(n));
    if (!(eps >= 0.0) || !isfinite(eps)) return QN_FAIL(err, invalid, "%s: eps is %g, 0 or more expected", OP(n), eps);
    if (n->n_src > 1) {
        QN_TRY(want_dtype(n, 1, "w", dtype, err));
        QN_TRY(want_shape(n, 1, "w", qn_shape_of(last_dim(n->src[0])), err));
    }
    const qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    return dense(n, dtype, &shape, err);
}

qn_status qn__rule_same_shapes(qn_node *n, qn_error *err)
{
    const qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    if (class_of(n->src[0]) != QN_CLASS_real) QN_TRY(want_dtype(n, 0, "gate", QN_DTYPE_F32, err));
    QN_TRY(want_dtype(n, 1, "up", n->src[0]->dtype, err));
    QN_TRY(want_shape(n, 1, "up", shape, err));
    return dense(n, n->src[0]->dtype, &shape, err);
}

qn_status qn__rope_check(const qn_rope_attrs *a, int64_t d, qn_error *err)
{
    if (a->mode != QN_ROPE_NORM && a->mode != QN_ROPE_NEOX) {
        return QN_FAIL(err, invalid, "rope: mode %d, %d or %d expected", a->mode, QN_ROPE_NORM, QN_ROPE_NEOX);
    }
    if (a->n_rot <= 0 || a->n_rot % 2 != 0 || a->n_rot > d) {
        return QN_FAIL(err, invalid, "rope: n_rot is %d, an even number from 2 to the head size %lld expected",
                       a->n_rot, (long long)d);
    }
    if (!(a->base > 0.0f) || !isfinite(a->base) || !(a->freq_scale > 0.0f) || !isfinite(a->freq_scale)) {
        return QN_FAIL(err, invalid, "rope: base %g and freq_scale %g, positive numbers expected", (double)a->base,
                       (double)a->freq_scale);
    }
    if (!isfinite(a->attn_factor) || !isfinite(a->ext_factor) || !isfinite(a->beta_fast) || !isfinite(a->beta_slow)) {
        return QN_FAIL(err, invalid,
                       "rope: attn_factor %g, ext_factor %g, beta_fast %g, beta_slow %g: finite numbers expected",
                       (double)a->attn_factor, (double)a->ext_factor, (double)a->beta_fast, (double)a->beta_slow);
    }
    for (int i = 0; i < 4; i++)
        if (a->sections[i] < 0 || a->sections[i] > a->n_rot / 2)
            return QN_FAIL(err, invalid, "rope: section %d has %d pairs; 0 to %d are possible", i, a->sections[i],
                           a->n_rot / 2);
    if (a->ext_factor != 0.0f && a->n_ctx_orig <= 0) {
        return QN_FAIL(err, invalid, "rope: n_ctx_orig is %d, YaRN needs the context of training", a->n_ctx_orig);
    }
    return QN_OK;
}

qn_status qn__rule_rope(qn_node *n, qn_error *err)
{
    const qn_rope_attrs *attrs = n->attrs;
    QN_TRY(want_dtype(n, 0, "x", QN_DTYPE_F32, err));
    QN_TRY(want_rank(n, 0, "x", 3, err));
    QN_TRY(want_dtype(n, 1, "pos", QN_DTYPE_I32, err));
    const int64_t n_tokens = n->src[0]->layout.dim[0];
    QN_TRY(
        want_shape(n, 1, "pos", qn__rope_numbers(attrs) > 1 ? qn_shape_of(n_tokens, 4) : qn_shape_of(n_tokens), err));
    QN_TRY(qn__rope_check(attrs, last_dim(n->src[0]), err));
    if (n->n_src > 2) {
        QN_TRY(want_dtype(n, 2, "factors", QN_DTYPE_F32, err));
        QN_TRY(want_shape(n, 2, "factors", qn_shape_of(attrs->n_rot / 2), err));
    }
    const qn_shape shape = qn_layout_shape(&n->src[0]->layout);
    return dense(n, QN_DTYPE_F32, &shape, err);
}

/* ---- updates: the result is the destination ---- */

static qn_status updated(qn_node *n, qn_error *err)
{
    const qn_node *dst = n->src[0];
    char text[QN_NODE_TEXT];
    if (!qn__is_param(dst->root, QN_NODE_mutable)) {
        return QN_FAIL(err, invalid, "%s: the destination %s is not a mutable param", OP(n),
                       qn__node_text(dst->root, text));
    }
    n->dtype = dst->dtype;
    n->layout = dst->layout;
    return QN_OK;
}

static bool can_store(const qn_node *dst)
{
    return class_of(dst) == QN_CLASS_real || (class_of(dst) == QN_CLASS_block && qn_dtype_can_pack(dst->dtype));
}

qn_status qn__rule_set_rows(qn_node *n, qn_error *err)
{
    const qn_node *dst = n->src[0], *x = n->src[1];
    QN_TRY(want_rank(n, 0, "dst", 2, err));
    const bool numbers = dst->dtype == QN_DTYPE_I32; /* as they are */
    QN_TRY(want_dtype(n, 1, "x", numbers ? QN_DTYPE_I32 : QN_DTYPE_F32, err));
    QN_TRY(want_rank(n, 1, "x", 2, err));
    QN_TRY(want_dtype(n, 2, "rows", QN_DTYPE_I32, err));
    if (!numbers && !can_store(dst))
        return QN_FAIL(err, invalid, "set_rows: nothing is converted to dst's type %s", DTYPE(dst->dtype));
    if (last_dim(x) != last_dim(dst)) {
        return QN_FAIL(err, invalid, "set_rows: x %s into dst %s: row sizes %lld and %lld differ", SHAPE(x), SHAPE(dst),
                       (long long)last_dim(x), (long long)last_dim(dst));
    }
    QN_TRY(want_shape(n, 2, "rows", qn_shape_of(x->layout.dim[0]), err));
    return updated(n, err);
}

qn_status qn__rule_slice_update(qn_node *n, qn_error *err)
{
    const qn_slice_attrs *a = n->attrs;
    const qn_node *dst = n->src[0], *x = n->src[1];
    const int rank = dst->layout.rank, block = qn_dtype_get(dst->dtype)->block_elems;
    if (a->dim < 0 || a->dim >= rank) {
        return QN_FAIL(err, invalid, "slice_update: dimension %d of dst %s does not exist", a->dim, SHAPE(dst));
    }
    const bool fits = a->accumulate ? x->dtype == QN_DTYPE_F32 && class_of(dst) == QN_CLASS_real
                                    : x->dtype == dst->dtype || (x->dtype == QN_DTYPE_F32 && can_store(dst));
    if (!fits) {
        return QN_FAIL(err, invalid, "slice_update: x %s cannot be %s %s dst", DTYPE(x->dtype),
                       a->accumulate ? "added to" : "stored in", DTYPE(dst->dtype));
    }
    QN_TRY(want_rank(n, 1, "x", rank, err));
    qn_shape want = qn_layout_shape(&dst->layout);
    want.dim[a->dim] = x->layout.dim[a->dim];
    QN_TRY(want_shape(n, 1, "x", want, err));
    if (a->start < 0 || a->start > dst->layout.dim[a->dim] - want.dim[a->dim]) {
        return QN_FAIL(err, invalid, "slice_update: x %s from %lld on leaves dimension %d of dst %s", SHAPE(x),
                       (long long)a->start, a->dim, SHAPE(dst));
    }
    if (a->dim == rank - 1 && (a->start % block != 0 || want.dim[a->dim] % block != 0)) {
        return QN_FAIL(err, invalid, "slice_update: start %lld and size %lld don't divide into blocks of %d",
                       (long long)a->start, (long long)want.dim[a->dim], block);
    }
    return updated(n, err);
}

/* ---- attention ---- */

qn_status qn__rule_attention(qn_node *n, qn_error *err)
{
    const qn_node *q = n->src[0], *k = n->src[1], *v = n->src[2];
    const qn_attn_attrs *a = n->attrs;
    QN_TRY(want_dtype(n, 0, "q", QN_DTYPE_F32, err));
    QN_TRY(want_rank(n, 0, "q", 3, err));
    QN_TRY(want_number(n, 1, "k", err));
    QN_TRY(want_rank(n, 1, "k", 3, err));
    QN_TRY(want_number(n, 2, "v", err));
    QN_TRY(want_rank(n, 2, "v", 3, err));
    QN_TRY(want_dtype(n, 3, "lists", QN_DTYPE_I32, err));
    QN_TRY(want_rank(n, 3, "lists", 2, err));
    QN_TRY(want_dtype(n, 4, "spans", QN_DTYPE_I32, err));
    QN_TRY(want_shape(n, 4, "spans", qn_shape_of(q->layout.dim[0], a->alibi != 0 ? 4 : 3), err));
    const int64_t *dq = q->layout.dim, *dk = k->layout.dim, *dv = v->layout.dim;
    if (n->n_src != 5 + (a->has_sinks != 0))
        return QN_FAIL(err, invalid, "attention: %d sources, %d expected", n->n_src, 5 + (a->has_sinks != 0));
    if (a->has_sinks) {
        QN_TRY(want_dtype(n, 5, "sinks", QN_DTYPE_F32, err));
        QN_TRY(want_shape(n, 5, "sinks", qn_shape_of(dq[1]), err));
    }
    if (dq[2] != dk[2]) {
        return QN_FAIL(err, invalid, "attention: q %s and k %s: head sizes %lld and %lld differ", SHAPE(q), SHAPE(k),
                       (long long)dq[2], (long long)dk[2]);
    }
    if (dk[0] != dv[0] || dk[1] != dv[1]) {
        return QN_FAIL(err, invalid, "attention: k %s and v %s: cells and heads differ", SHAPE(k), SHAPE(v));
    }
    if (dk[1] <= 0 || dq[1] % dk[1] != 0) {
        return QN_FAIL(err, invalid, "attention: %lld query heads don't share %lld key heads evenly", (long long)dq[1],
                       (long long)dk[1]);
    }
    if (!isfinite(a->alibi) || !(a->alibi >= 0.0f)) {
        return QN_FAIL(err, invalid, "attention: alibi %g: finite and 0 or more expected", (double)a->alibi);
    }
    if (a->alibi > 0 && n->src[3]->layout.dim[0] % 2 != 0) {
        return QN_FAIL(err, invalid, "attention: lists %s: with ALiBi as many rows of positions as of cells expected",
                       SHAPE(n->src[3]));
    }
    if (!isfinite(a->scale) || !(a->softcap >= 0.0f) || !isfinite(a->softcap)) {
        return QN_FAIL(err, invalid, "attention: scale %g, softcap %g: finite and 0 or more expected", (double)a->scale,
                       (double)a->softcap);
    }
    int64_t width;
    if (__builtin_mul_overflow(dq[1], dv[2], &width)) {
        return QN_FAIL(err, limit, "attention: %lld heads of %lld overflow", (long long)dq[1], (long long)dv[2]);
    }
    return dense(n, QN_DTYPE_F32, &qn_shape_of(dq[0], width), err);
}
