/* SPDX-License-Identifier: MIT */
/* src/array/ops/apply.c -- operations by their rows: which type they compute in, conversions, numbers. */
#include "array/ops/apply.h"

#include <math.h>
#include <string.h>

qn_tensor *qn__cast(qn_tensor *t, qn_dtype dtype)
{
    if (t == NULL || of(t)->storage->dtype == dtype) return t;
    return qn__apply(QN_OP_copy, &(qn_copy_attrs){(int32_t)dtype}, &t, 1);
}

bool qn__convert(qn_tensor **src, int n, qn_dtype dtype, qn_tensor **made)
{
    memset(made, 0, (size_t)n * sizeof *made);
    for (int i = 0; i < n; i++) {
        qn_tensor *t = qn__cast(src[i], dtype);
        if (t == NULL) {
            while (i-- > 0) qn_release(made[i]);
            return false;
        }
        if (t != src[i]) src[i] = made[i] = t;
    }
    return true;
}

static bool is_narrow(qn_dtype d) { return d == QN_DTYPE_F16 || d == QN_DTYPE_BF16; }

/* The dtype in which an op of that row computes sources of the common dtype `d`. */
static qn_dtype computing_type(qn_types types, qn_dtype d)
{
    const qn_dtype_class class = qn_dtype_get(d)->class_;
    const bool needs_real = types == QN_TYPES_divide || types == QN_TYPES_real;
    if (needs_real && class != QN_CLASS_real) return QN_DTYPE_F32;
    if (types == QN_TYPES_count && class == QN_CLASS_boolean) return QN_DTYPE_I64;
    return d;
}

/* The dtype of the second source. A number that 16 bits are multiplied with or divided by stays as wide as F32, as in
 * PyTorch: the result alone is rounded. */
static qn_dtype type_of_number(qn_op op, qn_dtype d) { return is_narrow(d) && qn__op_scales(op) ? QN_DTYPE_F32 : d; }

/* Attributes of a row without options, in that type. */
static const void *attrs_of(qn_types types, qn_dtype dtype, const void *given)
{
    static const qn_strict_attrs strict = {QN_STRICT_self};
    return given == NULL && types == QN_TYPES_quotient && !qn__is_real(dtype) ? &strict : given;
}

/* What PyTorch refuses of a number at once. */
static bool number_allowed(qn_op op, qn_types types, const qn_tensor *a, double b, qn_dtype dtype)
{
    qn_context *ctx = of(a)->ctx;
    const char *name = qn__op_info(op)->name;
    if (qn__is_real(dtype)) return true;
    if (types == QN_TYPES_power) {
        if (b >= 0) return qn__number_check(ctx, name, b, dtype);
        (void)QN_FAIL(qn__err(ctx), invalid, "%s: integers to the negative power %g", name, b);
        return false;
    }
    uint8_t bytes[QN_NUMBER_BYTES] = {0}, zero[QN_NUMBER_BYTES] = {0};
    if (types != QN_TYPES_quotient || qn_layout_numel(&of(a)->layout) == 0) return true;
    if (!qn__number_write(bytes, b, dtype, qn__err(ctx))) return false;
    if (memcmp(bytes, zero, sizeof bytes) != 0) return true;
    (void)QN_FAIL(qn__err(ctx), invalid, "%s: an integer is divided by 0", name);
    return false;
}

static bool convert_all(qn_op op, qn_tensor **in, int n, qn_dtype dtype, qn_tensor **made)
{
    const bool scaled = n == 2 && of(in[1])->layout.rank == 0 && of(in[1])->storage->dtype != dtype;
    const qn_dtype of_second = scaled ? type_of_number(op, dtype) : dtype;
    if (of_second == dtype) return qn__convert(in, n, dtype, made);
    if (!qn__convert(in, 1, dtype, made)) return false;
    if (qn__convert(in + 1, 1, of_second, made + 1)) return true;
    qn_release(made[0]);
    return false;
}

qn_tensor *qn__compute(qn_op op, qn_types types, const void *attrs, qn_target target, qn_tensor *const *src, int n_src)
{
    const char *name = qn__op_info(op)->name;
    qn_tensor *in[QN_MAX_SRC], *made[QN_MAX_SRC];
    qn_dtype dtype;
    qn_context *ctx = qn__same_context(name, src, n_src);
    if (ctx == NULL || !qn__make_room(ctx) || !qn__result_type(name, src, n_src, &dtype)) return NULL;
    memcpy(in, src, (size_t)n_src * sizeof *in);
    dtype = computing_type(types, dtype);
    if (!convert_all(op, in, n_src, dtype, made)) return NULL;
    attrs = attrs_of(types, dtype, attrs);
    qn_tensor *y = target.out != NULL ? qn__apply_into(target.out, target.in_place, op, attrs, in, n_src)
                                      : qn__apply(op, attrs, in, n_src);
    for (int i = 0; i < n_src; i++) qn_release(made[i]);
    return y;
}

qn_tensor *qn__plain(qn_op op, const void *attrs, qn_target target, qn_tensor *const *src, int n_src)
{
    qn_context *ctx = qn__same_context(qn__op_info(op)->name, src, n_src);
    if (ctx == NULL || !qn__make_room(ctx)) return NULL;
    return target.out != NULL ? qn__apply_into(target.out, target.in_place, op, attrs, src, n_src)
                              : qn__apply(op, attrs, src, n_src);
}

qn_tensor *qn__source(qn_context *ctx, int place, qn_op op, const void *attrs)
{
    if (!qn__make_room(ctx)) return NULL;
    const int32_t was = qn__place_swap(ctx, place);
    qn_tensor *y = qn__tensor_of(ctx, qn__node_op(ctx, op, attrs, NULL, 0));
    qn__place_swap(ctx, was);
    return y;
}

const char *qn__text_of(const qn_tensor *t, char *text)
{
    const qn_shape shape = qn_layout_shape(&of(t)->layout);
    return qn_shape_print(&shape, text, 192);
}

int qn__dim_of(const char *name, const qn_tensor *t, int dim)
{
    const int rank = of(t)->layout.rank > 0 ? of(t)->layout.rank : 1;
    if (dim >= -rank && dim < rank) return dim < 0 ? dim + rank : dim;
    (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "%s: dimension %d of %s does not exist", name, dim, QN_TEXT_OF(t));
    return -1;
}

/* A number stands in the graph as a 0-d param; a tensor over that node lives until the op is recorded. One that a
 * gradient will need outlives the graph and has memory. */
static qn_tensor *number_tensor(qn_context *ctx, int place, double value, qn_dtype dtype, bool kept)
{
    if (kept) return qn__scalar(ctx, place, value, dtype);
    qn_storage *s = qn__slab_get(ctx, &ctx->storages);
    if (s == NULL) return NULL;
    *s = (qn_storage){.ctx = ctx, .refs = 1, .dtype = dtype, .place = place};
    ctx->n_storages++;
    s->leaf = qn__node_number(ctx, place, value, dtype);
    if (s->leaf != NULL) return qn__tensor_new(ctx, s, &s->layout);
    qn__storage_unref(s);
    return NULL;
}

qn_tensor *qn__compute_number(qn_op op, qn_types types, const void *attrs, qn_target target, qn_tensor *a, double b)
{
    const char *name = qn__op_info(op)->name;
    if (!qn__live(a, name)) return NULL;
    qn_context *ctx = of(a)->ctx;
    qn_dtype dtype;
    if (!qn__make_room(ctx) || !qn__result_type(name, &a, 1, &dtype)) return NULL;
    dtype = computing_type(types, qn__with_number(dtype, b != floor(b) || isinf(b)));
    if (!number_allowed(op, types, a, b, dtype)) return NULL;
    attrs = attrs_of(types, dtype, attrs);
    const bool kept = qn__tape_keeps(ctx, op, &a, 1, 1);
    qn_tensor *x = qn__cast(a, dtype),
              *n = x != NULL ? number_tensor(ctx, qn__place_of(a), b, type_of_number(op, dtype), kept) : NULL,
              *y = NULL;
    qn_tensor *src[2] = {x, n};
    if (n != NULL)
        y = target.out != NULL ? qn__apply_into(target.out, target.in_place, op, attrs, src, 2)
                               : qn__apply(op, attrs, src, 2);
    if (x != a) qn_release(x);
    qn_release(n);
    return y;
}
