/* SPDX-License-Identifier: MIT */
/* src/array/ops/join.c -- joining, repeating, rearranging, padding on handles. */
#include "array/ops/apply.h"

#include <string.h>

/* ---- joining: memory of undefined values, then each source written into its part ---- */

/* On the device of those. */
static qn_tensor *undefined(qn_tensor *const *t, int n, qn_dtype dtype, const qn_shape *shape)
{
    qn_context *ctx = of(t[0])->ctx;
    qn_empty_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.rank = shape->rank;
    attrs.dtype = (int32_t)dtype;
    attrs.serial = ctx->graph->n_nodes; /* no two are equal */
    memcpy(attrs.dim, shape->dim, (size_t)shape->rank * sizeof attrs.dim[0]);
    return qn__source(ctx, qn__place_among(t, n), QN_OP_empty, &attrs);
}

/* y with x in the place `part`; y ends. */
static qn_tensor *placed(qn_tensor *y, qn_tensor *x, const qn_layout *part)
{
    qn_strided_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.layout.rank = part->rank;
    attrs.layout.offset = part->offset;
    memcpy(attrs.layout.dim, part->dim, (size_t)part->rank * sizeof part->dim[0]);
    memcpy(attrs.layout.stride, part->stride, (size_t)part->rank * sizeof part->stride[0]);
    attrs.mode = QN_COMBINE_set;
    const qn_shape shape = qn_layout_shape(part);
    qn_tensor *in = qn__cast(x, of(y)->storage->dtype),
              *like = in == NULL || of(x)->layout.rank == part->rank ? in : qn_view_as(in, shape); /* is_nothing() */
    qn_tensor *z = qn__plain(QN_OP_strided_update, &attrs, (qn_target){0}, (qn_tensor *[]){y, like}, 2);
    if (like != in) qn_release(like);
    if (in != x) qn_release(in);
    qn_release(y);
    return z;
}

/* Of what has no elements, the gradient is all that there is to join. */
static bool is_joined(qn_context *ctx, qn_tensor *t) { return qn_numel(t) > 0 || qn__tape_wanted(ctx, &t, 1); }

/* Whose shape is [0]: PyTorch leaves it out, whatever the others are. */
static bool is_nothing(const qn_tensor *t) { return of(t)->layout.rank == 1 && of(t)->layout.dim[0] == 0; }

static bool fits(const qn_tensor *first, const qn_tensor *t, int d)
{
    bool good = of(t)->layout.rank == of(first)->layout.rank;
    for (int k = 0; k < of(t)->layout.rank && good; k++)
        good = k == d || of(t)->layout.dim[k] == of(first)->layout.dim[k];
    return good;
}

static bool cat_shape(qn_context *ctx, qn_tensor *const *t, int n, int dim, int *d, qn_shape *shape)
{
    const qn_tensor *first = t[0];
    for (int i = 0; i < n && is_nothing(first); i++) first = t[i];
    if (of(first)->layout.rank == 0) {
        (void)QN_FAIL(qn__err(ctx), invalid, "cat: a 0-d tensor cannot be joined; use stack");
        return false;
    }
    *d = qn__dim_of("cat", first, dim);
    if (*d < 0) return false;
    *shape = qn_layout_shape(&of(first)->layout);
    shape->dim[*d] = 0;
    for (int i = 0; i < n; i++) {
        if (is_nothing(t[i])) continue;
        if (fits(first, t[i], *d) && !__builtin_add_overflow(shape->dim[*d], of(t[i])->layout.dim[*d], &shape->dim[*d]))
            continue;
        (void)QN_FAIL(qn__err(ctx), invalid, "cat: %s and %s differ in more than dimension %d", QN_TEXT_OF(first),
                      QN_TEXT_OF(t[i]), *d);
        return false;
    }
    return true;
}

static bool common_type(const char *name, qn_tensor *const *t, int n, qn_dtype *out)
{
    if (!qn__result_type(name, t, 1, out)) return false; /* here 0-d tensors count like others */
    for (int i = 1; i < n; i++) {
        if (qn__promote(*out, of(t[i])->storage->dtype, out)) continue;
        (void)QN_FAIL(qn__err(of(t[i])->ctx), invalid,
                      "%s: source %d is %s, a block format; qn_dequantize makes numbers of it", name, i,
                      qn_dtype_get(of(t[i])->storage->dtype)->name);
        return false;
    }
    return true;
}

qn_tensor *qn_cat(qn_tensor *const *t, int n, int dim)
{
    qn_dtype dtype;
    qn_shape shape;
    int d;
    qn_context *ctx = n > 0 ? qn__same_context("cat", t, n) : NULL;
    if (ctx == NULL || !qn__make_room(ctx) || !common_type("cat", t, n, &dtype) ||
        !cat_shape(ctx, t, n, dim, &d, &shape))
        return NULL;
    qn_tensor *y = undefined(t, n, dtype, &shape);
    int64_t at = 0;
    for (int i = 0; i < n && y != NULL; i++) {
        if (!is_joined(ctx, t[i])) continue;
        qn_layout part = of(y)->layout; /* a new value is row-major from 0 on */
        part.dim[d] = is_nothing(t[i]) ? 0 : of(t[i])->layout.dim[d];
        part.offset = at * part.stride[d];
        at += part.dim[d];
        y = placed(y, t[i], &part);
    }
    return y;
}

qn_tensor *qn_stack(qn_tensor *const *t, int n, int dim)
{
    qn_dtype dtype;
    qn_error *err;
    qn_layout wide;
    qn_context *ctx = n > 0 ? qn__same_context("stack", t, n) : NULL;
    if (ctx == NULL || !qn__make_room(ctx) || !common_type("stack", t, n, &dtype)) return NULL;
    for (int i = 1; i < n; i++) {
        if (fits(t[0], t[i], -1)) continue;
        (void)QN_FAIL(qn__err(ctx), invalid, "stack: %s and %s, equal shapes expected", QN_TEXT_OF(t[0]),
                      QN_TEXT_OF(t[i]));
        return NULL;
    }
    err = qn__err(ctx);
    if (qn_layout_unsqueeze(&of(t[0])->layout, dim, &wide, err) != QN_OK) {
        (void)qn__prefix(err, err->status, "stack");
        return NULL;
    }
    const int d = dim < 0 ? dim + wide.rank : dim;
    qn_shape shape = qn_layout_shape(&wide);
    shape.dim[d] = n;
    qn_tensor *y = undefined(t, n, dtype, &shape);
    for (int i = 0; i < n && y != NULL; i++) {
        qn_layout part;
        if (!is_joined(ctx, t[i])) continue;
        if (qn_layout_select(&of(y)->layout, d, i, &part, qn__err(ctx)) == QN_OK) {
            y = placed(y, t[i], &part);
            continue;
        }
        qn_release(y);
        y = NULL;
    }
    return y;
}

/* ---- repeating and rearranging ---- */

/* [outer, inner] repeated to [outer, times, inner]; t ends. */
static qn_tensor *times_over(qn_tensor *t, int64_t outer, int64_t times, int64_t inner)
{
    qn_tensor *thin = qn_reshape(t, qn_shape_of(outer, 1, inner));
    qn_tensor *wide = thin != NULL ? qn_expand(thin, qn_shape_of(outer, times, inner)) : NULL;
    qn_tensor *y = wide != NULL ? qn_clone(wide) : NULL;
    qn_release(thin);
    qn_release(wide);
    qn_release(t);
    return y;
}

qn_tensor *qn_repeat(qn_tensor *t, qn_shape times)
{
    if (!LIVE(t)) return NULL;
    const int n = times.rank, more = n - of(t)->layout.rank;
    qn_shape shape = {.rank = n};
    bool good = more >= 0 && n <= QN_MAX_RANK;
    for (int i = 0; i < n && good; i++) {
        shape.dim[i] = i < more ? 1 : of(t)->layout.dim[i - more];
        good = times.dim[i] >= 0;
    }
    qn_shape after = shape;
    for (int i = 0; i < n && good; i++) good = !__builtin_mul_overflow(after.dim[i], times.dim[i], &after.dim[i]);
    if (!good || qn_shape_numel(&after) < 0) {
        char text[192];
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid,
                      "repeat: %s times %s: a count of 0 or more for each dimension expected", QN_TEXT_OF(t),
                      qn_shape_print(&times, text, sizeof text));
        return NULL;
    }
    qn_tensor *y = qn_clone(t); /* from the last dimension on: what is repeated is small at first */
    for (int i = n - 1; i >= 0 && y != NULL; i--) {
        if (times.dim[i] == 1) continue;
        int64_t outer = 1, inner = 1;
        for (int k = 0; k < i; k++) outer *= shape.dim[k];
        for (int k = i; k < n; k++) inner *= shape.dim[k];
        y = times_over(y, outer, times.dim[i], inner);
        shape.dim[i] *= times.dim[i];
    }
    qn_tensor *v = y != NULL ? qn_view_as(y, shape) : NULL;
    qn_release(y);
    return v;
}

qn_tensor *qn_roll(qn_tensor *t, int64_t shift, int dim)
{
    const int d = LIVE(t) ? qn__dim_of("roll", t, dim) : -1;
    if (d < 0) return NULL;
    const int64_t n = of(t)->layout.rank > 0 ? of(t)->layout.dim[d] : 1;
    if (n < 2) return qn_clone(t);
    const int64_t by = (shift % n + n) % n;
    qn_tensor *parts[] = {qn_narrow(t, d, n - by, by), qn_narrow(t, d, 0, n - by)}, *y = qn_cat(parts, 2, d);
    qn_release(parts[0]);
    qn_release(parts[1]);
    return y;
}

static qn_tensor *tri(qn_tensor *t, int64_t diagonal, bool upper)
{
    qn_tri_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.diagonal = diagonal;
    attrs.upper = upper;
    return qn__plain(QN_OP_tri, &attrs, (qn_target){0}, &t, 1);
}

qn_tensor *qn_tril(qn_tensor *t, int64_t diagonal) { return tri(t, diagonal, false); }
qn_tensor *qn_triu(qn_tensor *t, int64_t diagonal) { return tri(t, diagonal, true); }

/* ---- padding ---- */

/* What is cut off is not wrapped around. y ends. */
static qn_tensor *cut_first(qn_tensor *y, int dim, qn_pad_index_attrs *attrs)
{
    const int64_t most = attrs->n, front = attrs->before < 0 ? attrs->before : 0,
                  back = attrs->after < 0 ? attrs->after : 0;
    if ((front == 0 && back == 0) || front < -most || back < -most - front) return y; /* the index says what is wrong */
    qn_tensor *rest = qn_narrow(y, dim, -front, most + front + back);
    qn_release(y);
    attrs->n = most + front + back;
    attrs->before -= front;
    attrs->after -= back;
    return rest;
}

/* One dimension after the other, by index: what is repeated outside was repeated inside before. */
static qn_tensor *pad_like(qn_tensor *t, const qn_pad_attrs *pads, qn_pad_mode mode)
{
    qn_tensor *y = qn_clone(t);
    for (int i = 0; i < of(t)->layout.rank && y != NULL; i++) {
        if (pads->before[i] == 0 && pads->after[i] == 0) continue;
        qn_pad_index_attrs attrs = {.n = of(t)->layout.dim[i],
                                    .before = pads->before[i],
                                    .after = pads->after[i],
                                    .mode = (int32_t)mode};
        if (mode == QN_PAD_circular) y = cut_first(y, i, &attrs);
        if (y == NULL) break;
        if (attrs.n == 0 && attrs.before == 0 && attrs.after == 0) continue; /* nothing is left, nothing repeated */
        qn_tensor *at = qn__source(of(t)->ctx, qn__place_of(t), QN_OP_pad_index, &attrs),
                  *z = qn_index_select(y, i, at);
        qn_release(at);
        qn_release(y);
        y = z;
    }
    return y;
}

qn_tensor *qn_pad(qn_tensor *t, const int64_t *pads, int n_pads, const char *mode, double value)
{
    static const char *const names[] = {
        [QN_PAD_reflect] = "reflect", [QN_PAD_replicate] = "replicate", [QN_PAD_circular] = "circular"};
    if (!LIVE(t)) return NULL;
    const int rank = of(t)->layout.rank;
    if (n_pads < 0 || n_pads % 2 != 0 || n_pads / 2 > rank) {
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "pad: %d counts for %s, two a dimension expected", n_pads,
                      QN_TEXT_OF(t));
        return NULL;
    }
    if (n_pads > 0 && !GIVEN(of(t)->ctx, pads, "pads")) return NULL;
    if (!qn__number_check(of(t)->ctx, "pad", value, of(t)->storage->dtype)) return NULL;
    qn_pad_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.value = value;
    for (int i = 0; i < n_pads / 2; i++) {
        attrs.before[rank - 1 - i] = pads[2 * i];
        attrs.after[rank - 1 - i] = pads[2 * i + 1];
    }
    if (mode == NULL || strcmp(mode, "constant") == 0) return qn__plain(QN_OP_pad, &attrs, (qn_target){0}, &t, 1);
    for (int i = 0; i < 3; i++) {
        if (strcmp(mode, names[i]) == 0) return pad_like(t, &attrs, (qn_pad_mode)i);
    }
    (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "pad: mode \"%s\", constant, reflect, replicate or circular expected",
                  mode);
    return NULL;
}
