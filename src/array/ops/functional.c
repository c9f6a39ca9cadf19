/* SPDX-License-Identifier: MIT */
/* src/array/ops/functional.c -- normalization, rotation and gates on handles: one operation each, in F64 for F64 and in
 * F32 for all else. */
#include "array/ops/apply.h"
#include "array/ops/functional.h"

#include <string.h>

qn_dtype qn__fused_dtype(const qn_tensor *x)
{
    return of(x)->storage->dtype == QN_DTYPE_F64 ? QN_DTYPE_F64 : QN_DTYPE_F32;
}

bool qn__is_real_tensor(const char *name, const char *what, const qn_tensor *t)
{
    if (qn__is_real(of(t)->storage->dtype)) return true;
    (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "%s: %s is %s, a real type expected", name, what,
                  qn_dtype_get(of(t)->storage->dtype)->name);
    return false;
}

/* One more handle: of t, or of what it is in that dtype with rows whose elements touch. Ids stay what they are. */
static qn_tensor *prepared(qn_tensor *t, qn_dtype dtype)
{
    const qn_layout *l = &of(t)->layout;
    if (!qn__is_real(of(t)->storage->dtype)) return qn_retain(t);
    if (of(t)->storage->dtype != dtype) return qn__cast(t, dtype);
    const bool dense = l->rank == 0 || l->dim[l->rank - 1] <= 1 || l->stride[l->rank - 1] == 1;
    return dense ? qn_retain(t) : qn__apply(QN_OP_copy, &(qn_copy_attrs){(int32_t)dtype}, &t, 1);
}

qn_tensor *qn__fused(qn_op op, const void *attrs, qn_tensor *const *src, int n_src, qn_dtype dtype)
{
    qn_tensor *in[QN_MAX_SRC] = {0}, *y = NULL;
    qn_context *ctx = qn__same_context(qn__op_info(op)->name, src, n_src);
    if (ctx == NULL || !qn__make_room(ctx)) return NULL;
    bool good = true;
    for (int i = 0; i < n_src && good; i++) good = (in[i] = prepared(src[i], dtype)) != NULL;
    if (good) y = qn__apply(op, attrs, in, n_src);
    for (int i = 0; i < n_src; i++) qn_release(in[i]);
    return y;
}

qn_tensor *qn__given(qn_tensor *y, qn_dtype dtype)
{
    if (y == NULL || of(y)->storage->dtype == dtype) return y;
    qn_tensor *z = qn__cast(y, dtype);
    qn_release(y);
    return z;
}

/* ---- normalization ---- */

static bool has_shape(const char *name, const char *what, const qn_tensor *t, const qn_shape *want)
{
    const qn_shape have = qn_layout_shape(&of(t)->layout);
    char a[192], b[192];
    if (!qn__is_real_tensor(name, what, t)) return false;
    if (qn_shape_equal(&have, want)) return true;
    (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "%s: %s is %s, %s expected", name, what,
                  qn_shape_print(&have, a, sizeof a), qn_shape_print(want, b, sizeof b));
    return false;
}

qn_tensor *qn_rms_norm(qn_tensor *x, qn_tensor *weight, double eps)
{
    qn_tensor *src[] = {x, weight};
    const int n = weight != NULL ? 2 : 1;
    if (qn__same_context("rms_norm", src, n) == NULL || !qn__is_real_tensor("rms_norm", "x", x)) return NULL;
    if (weight != NULL && !qn__is_real_tensor("rms_norm", "weight", weight)) return NULL;
    return qn__given(qn__fused(QN_OP_rms_norm, &(qn_norm_attrs){eps}, src, n, qn__fused_dtype(x)),
                     of(x)->storage->dtype);
}

/* x with its last n dimensions as one. */
static qn_shape folded(const qn_tensor *x, int n)
{
    qn_shape shape = {.rank = of(x)->layout.rank - n + 1};
    int64_t size = 1;
    for (int i = 0; i < of(x)->layout.rank; i++) {
        if (i < of(x)->layout.rank - n)
            shape.dim[i] = of(x)->layout.dim[i];
        else
            size *= of(x)->layout.dim[i];
    }
    shape.dim[shape.rank - 1] = size;
    return shape;
}

static qn_tensor *layer_norm(qn_tensor *x, int n_dims, qn_tensor *weight, qn_tensor *bias, double eps)
{
    const qn_dtype dtype = qn__fused_dtype(x);
    const qn_shape shape = qn_layout_shape(&of(x)->layout), rows = folded(x, n_dims),
                   row = qn_shape_of(rows.dim[rows.rank - 1]);
    const int n = bias != NULL ? 3 : weight != NULL ? 2 : 1;
    if (bias != NULL && weight == NULL) { /* a bias comes after a weight */
        const int32_t was = qn__place_swap(of(x)->ctx, qn__place_of(x));
        weight = qn_ones(of(x)->ctx, row, dtype);
        qn__place_swap(of(x)->ctx, was);
    }
    qn_tensor *src[] = {x, weight, bias};
    for (int i = 0; i < n && n_dims > 1; i++) src[i] = qn_reshape(src[i], i == 0 ? rows : row);
    qn_tensor *y =
        qn__given(qn__fused(QN_OP_layer_norm, &(qn_layer_norm_attrs){eps}, src, n, dtype), of(x)->storage->dtype);
    return n_dims > 1 ? qn_view_as(y, shape) : y;
}

qn_tensor *qn_layer_norm(qn_tensor *x, int n_dims, qn_tensor *weight, qn_tensor *bias, double eps)
{
    static const char *const names[] = {"x", "weight", "bias"};
    qn_tensor *const given[] = {x, weight, bias};
    if (!LIVE(x)) return NULL;
    qn_context *ctx = of(x)->ctx;
    const int rank = of(x)->layout.rank;
    if (n_dims < 1 || n_dims > rank) {
        (void)QN_FAIL(qn__err(ctx), invalid, "layer_norm: %d dimensions of %s", n_dims, QN_TEXT_OF(x));
        return NULL;
    }
    qn_shape normal = {.rank = n_dims};
    for (int i = 0; i < n_dims; i++) normal.dim[i] = of(x)->layout.dim[rank - n_dims + i];
    if (!qn__is_real_tensor("layer_norm", names[0], x)) return NULL;
    for (int i = 1; i < 3; i++) {
        if (given[i] == NULL) continue;
        if (qn__same_context("layer_norm", (qn_tensor *[]){x, given[i]}, 2) == NULL ||
            !has_shape("layer_norm", names[i], given[i], &normal))
            return NULL;
    }
    if (qn_scope_begin(ctx) != QN_OK) return NULL;
    return qn_scope_end(ctx, layer_norm(x, n_dims, weight, bias, eps));
}

/* A vector over channels as what broadcasts to [batch, channels, ..]. */
static qn_tensor *over_channels(qn_tensor *v, const qn_tensor *x, qn_dtype dtype)
{
    qn_shape shape = {.rank = of(x)->layout.rank - 1, .dim = {of(x)->layout.dim[1]}};
    for (int i = 1; i < shape.rank; i++) shape.dim[i] = 1;
    return qn_reshape(qn__cast(v, dtype), shape);
}

static qn_tensor *group_norm(qn_tensor *x, int groups, qn_tensor *weight, qn_tensor *bias, double eps)
{
    const qn_dtype dtype = qn__fused_dtype(x);
    const qn_shape shape = qn_layout_shape(&of(x)->layout);
    int64_t size = shape.dim[1] / groups;
    for (int i = 2; i < shape.rank; i++) size *= shape.dim[i];
    qn_tensor *rows = qn_reshape(x, qn_shape_of(shape.dim[0], groups, size));
    qn_tensor *y = qn_view_as(qn__fused(QN_OP_layer_norm, &(qn_layer_norm_attrs){eps}, &rows, 1, dtype), shape);
    qn_tensor *w = weight != NULL ? over_channels(weight, x, dtype) : NULL,
              *b = bias != NULL ? over_channels(bias, x, dtype) : NULL;
    if (weight != NULL && bias != NULL)
        y = qn_addcmul(b, y, w, 1);
    else if (weight != NULL)
        y = qn_mul(y, w);
    else if (bias != NULL)
        y = qn_add(y, b);
    return qn__given(y, of(x)->storage->dtype);
}

qn_tensor *qn_group_norm(qn_tensor *x, int groups, qn_tensor *weight, qn_tensor *bias, double eps)
{
    static const char *const names[] = {"weight", "bias"};
    qn_tensor *const given[] = {weight, bias};
    if (!LIVE(x) || !qn__is_real_tensor("group_norm", "x", x)) return NULL;
    qn_context *ctx = of(x)->ctx;
    for (int i = 0; i < 2; i++) {
        if (given[i] != NULL && qn__same_context("group_norm", (qn_tensor *[]){x, given[i]}, 2) == NULL) return NULL;
    }
    if (of(x)->layout.rank < 2 || groups < 1 || of(x)->layout.dim[1] % groups != 0) {
        (void)QN_FAIL(qn__err(ctx), invalid, "group_norm: %d groups of the channels, dimension 1, of %s", groups,
                      QN_TEXT_OF(x));
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        if (given[i] == NULL) continue;
        if (!has_shape("group_norm", names[i], given[i], &qn_shape_of(of(x)->layout.dim[1]))) return NULL;
    }
    if (qn_scope_begin(ctx) != QN_OK) return NULL;
    return qn_scope_end(ctx, group_norm(x, groups, weight, bias, eps));
}

/* ---- rotation and gates ---- */

static qn_rope_attrs rope_attrs(const qn_rope_options *o, int64_t d)
{
    static const qn_rope_options none;
    if (o == NULL) o = &none;
    return (qn_rope_attrs){
        .mode = o->neox ? QN_ROPE_NEOX : QN_ROPE_NORM,
        .n_rot = o->n_rot != 0 ? o->n_rot : (int32_t)d,
        .base = o->base != 0 ? (float)o->base : 10000.0f,
        .freq_scale = o->freq_scale != 0 ? (float)o->freq_scale : 1.0f,
        .ext_factor = (float)o->ext_factor,
        .attn_factor = o->attn_factor != 0 ? (float)o->attn_factor : 1.0f,
        .beta_fast = o->beta_fast != 0 ? (float)o->beta_fast : 32.0f,
        .beta_slow = o->beta_slow != 0 ? (float)o->beta_slow : 1.0f,
        .n_ctx_orig = o->n_ctx_orig,
    };
}

/* 0, 1, .. n - 1 as a node, so that equal ones of a graph become one. */
static qn_tensor *counting(const qn_tensor *x, int64_t n)
{
    const qn_arange_attrs attrs = {.dtype = QN_DTYPE_I32, .n = n, .step = 1, .whole_step = 1};
    return qn__source(of(x)->ctx, qn__place_of(x), QN_OP_arange, &attrs);
}

/* Are positions' dimensions (but the last, of `numbers` each, where they are more than one) the last of x's but heads
 * and d? */
static bool positions_fit(const qn_tensor *x, const qn_tensor *positions, int heads, int numbers)
{
    const qn_layout *l = &of(x)->layout, *p = &of(positions)->layout;
    int at = l->rank - 2, last = p->rank - 1;
    bool fits = p->rank >= 1;
    if (fits && numbers > 1) fits = p->dim[last--] == numbers;
    for (int i = last; i >= 0 && fits; i--, at--) {
        if (at == heads) at--;
        fits = at >= 0 && p->dim[i] == l->dim[at];
    }
    if (!fits)
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "rope: positions %s do not fit x %s", QN_TEXT_OF(positions),
                      QN_TEXT_OF(x));
    return fits;
}

static qn_tensor *rope(qn_tensor *x, qn_tensor *positions, qn_tensor *factors, const qn_rope_attrs *attrs,
                       bool heads_first)
{
    const qn_dtype dtype = qn__fused_dtype(x);
    const int rank = of(x)->layout.rank;
    qn_rope_table_attrs of_table = {.rope = *attrs, .dtype = (int32_t)dtype};
    if (positions == NULL) positions = counting(x, of(x)->layout.dim[heads_first ? rank - 2 : rank - 3]);
    if (positions == NULL || !positions_fit(x, positions, heads_first ? rank - 3 : rank - 2, qn__rope_numbers(attrs)))
        return NULL;
    qn_tensor *table = qn__fused(QN_OP_rope_table, &of_table, (qn_tensor *[]){positions, factors},
                                 factors != NULL ? 2 : 1, QN_DTYPE_F32);
    const qn_rope_apply_attrs apply = {.mode = attrs->mode, .n_rot = attrs->n_rot, .heads_first = heads_first};
    return qn__given(qn__fused(QN_OP_rope_apply, &apply, (qn_tensor *[]){x, table}, 2, dtype), of(x)->storage->dtype);
}

static qn_tensor *checked_rope(qn_tensor *x, qn_tensor *positions, qn_tensor *factors, const qn_rope_attrs *given,
                               const qn_rope_options *options)
{
    if (!LIVE(x) || !qn__is_real_tensor("rope", "x", x)) return NULL;
    qn_context *ctx = of(x)->ctx;
    if (factors != NULL && qn__same_context("rope", (qn_tensor *[]){x, factors}, 2) == NULL) return NULL;
    if (positions != NULL && qn__same_context("rope", (qn_tensor *[]){x, positions}, 2) == NULL) return NULL;
    const int rank = of(x)->layout.rank;
    if (rank < 3 || of(x)->layout.dim[rank - 1] > INT32_MAX) {
        (void)QN_FAIL(qn__err(ctx), invalid, "rope: x is %s, [.., n, heads, d] expected", QN_TEXT_OF(x));
        return NULL;
    }
    const qn_rope_attrs attrs = given != NULL ? *given : rope_attrs(options, of(x)->layout.dim[rank - 1]);
    if (attrs.n_rot < 2 || attrs.n_rot % 2 != 0 || attrs.n_rot > of(x)->layout.dim[rank - 1]) {
        (void)QN_FAIL(qn__err(ctx), invalid,
                      "rope: %d elements of %s are rotated, an even number from 2 to %lld expected", attrs.n_rot,
                      QN_TEXT_OF(x), (long long)of(x)->layout.dim[rank - 1]);
        return NULL;
    }
    if (qn_scope_begin(ctx) != QN_OK) return NULL;
    return qn_scope_end(ctx, rope(x, positions, factors, &attrs, options != NULL && options->heads_first));
}

qn_tensor *qn_rope(qn_tensor *x, qn_tensor *positions, const qn_rope_options *options)
{
    return checked_rope(x, positions, options != NULL ? options->factors : NULL, NULL, options);
}

qn_tensor *qn__rope_by(qn_tensor *x, qn_tensor *positions, qn_tensor *factors, const qn_rope_attrs *attrs)
{
    return checked_rope(x, positions, factors, attrs, NULL);
}

qn_tensor *qn_swiglu(qn_tensor *gate, qn_tensor *up)
{
    return qn__compute(QN_OP_swiglu, QN_TYPES_real, NULL, (qn_target){0}, (qn_tensor *[]){gate, up}, 2);
}
