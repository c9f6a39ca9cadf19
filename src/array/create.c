/* SPDX-License-Identifier: MIT */
/* src/array/create.c -- tensors from numbers and from memory. What the caller has in hand is in memory at once; nothing
 * is recorded. */
#include "array/array.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

static qn_tensor *whole(qn_context *ctx, qn_storage *s)
{
    return s != NULL ? qn__tensor_new(ctx, s, &s->layout) : NULL;
}

static int64_t bytes_of(const qn_storage *s)
{
    const qn_dtype_info *info = qn_dtype_get(s->dtype);
    return qn_layout_numel(&s->layout) / info->block_elems * info->block_bytes;
}

qn_tensor *qn_empty(qn_context *ctx, qn_shape shape, qn_dtype dtype)
{
    return whole(ctx, qn__storage_new_resident(ctx, dtype, &shape));
}

qn_tensor *qn_from_data(qn_context *ctx, const void *data, qn_shape shape, qn_dtype dtype)
{
    qn_storage *s = qn__storage_new_resident(ctx, dtype, &shape);
    if (s == NULL) return NULL;
    const int64_t bytes = bytes_of(s);
    if (bytes > 0 && !GIVEN(ctx, data, "data")) {
        qn__storage_unref(s);
        return NULL;
    }
    if (bytes > 0 &&
        s->memory->buffer->backend->type->upload(s->memory->buffer, 0, data, (uint64_t)bytes, qn__err(ctx)) != QN_OK) {
        qn__storage_unref(s);
        return NULL;
    }
    return whole(ctx, s);
}

/* ---- filled ---- */

enum { FILL = 8192 }; /* elements copied at once */

/* Elements made on the host one after the other; `make` writes element i. */
typedef bool (*maker)(const double *p, int64_t i, void *out, qn_dtype dtype, qn_error *err);

static bool number_at(const double *p, int64_t i, void *out, qn_dtype dtype, qn_error *err)
{
    (void)i;
    return qn__number_write(out, p[0], dtype, err);
}

static qn_tensor *made(qn_context *ctx, const char *name, qn_shape shape, qn_dtype dtype, maker make, const double *p)
{
    qn_storage *s = qn__storage_new_resident(ctx, dtype, &shape);
    if (s == NULL) return NULL;
    const qn_dtype_info *info = qn_dtype_get(dtype);
    qn_buffer *buffer = s->memory->buffer;
    const size_t bytes = (size_t)bytes_of(s), unit = (size_t)info->block_bytes;
    qn_error *err = qn__err(ctx);
    bool good = info->block_elems == 1;
    if (!good)
        (void)QN_FAIL(err, unsupported, "%s: %s is a block format; qn_quantize makes it of real numbers", name,
                      info->name);
    char *copy = buffer->host != NULL || !good ? NULL : qn__alloc(bytes),
         *at = buffer->host != NULL ? buffer->host : copy;
    if (good && at == NULL) good = false, (void)QN_FAIL_NOMEM(err, bytes);
    const int64_t n = qn_layout_numel(&s->layout), own = make == number_at && n > 1 ? 1 : n; /* one number is copied */
    for (int64_t i = 0; good && i < own; i++) good = make(p, i, at + (size_t)i * unit, dtype, err);
    for (int64_t done = own, more; good && done < n; done += more) {
        more = done < FILL ? done : FILL; /* what was copied last is still in the cache */
        more = more < n - done ? more : n - done;
        memcpy(at + (size_t)done * unit, at, (size_t)more * unit);
    }
    if (good && copy != NULL) good = buffer->backend->type->upload(buffer, 0, copy, bytes, err) == QN_OK;
    qn__free(copy);
    if (good) return whole(ctx, s);
    qn__storage_unref(s);
    return NULL;
}

/* start + i * step, exact for whole numbers. */
static bool sequence_at(const double *p, int64_t i, void *out, qn_dtype dtype, qn_error *err)
{
    return qn__number_write(out, p[0] + (double)i * p[1], dtype, err);
}

/* From both ends to the middle, as PyTorch: symmetric sequences stay so, and the last element is `end` itself. */
static bool linspace_at(const double *p, int64_t i, void *out, qn_dtype dtype, qn_error *err)
{
    const double n = p[2];
    const double v = (double)i < n / 2 ? p[0] + p[3] * (double)i : p[1] - p[3] * (n - 1 - (double)i);
    return qn__number_write(out, v, dtype, err);
}

static bool eye_at(const double *p, int64_t i, void *out, qn_dtype dtype, qn_error *err)
{
    const int64_t columns = (int64_t)p[0];
    return qn__number_write(out, i / columns == i % columns ? 1.0 : 0.0, dtype, err);
}

static qn_tensor *filled(qn_context *ctx, const char *name, qn_shape shape, double value, qn_dtype dtype)
{
    if (!qn__number_check(ctx, name, value, dtype)) return NULL;
    return made(ctx, name, shape, dtype, number_at, &value);
}

qn_tensor *qn_zeros(qn_context *ctx, qn_shape shape, qn_dtype dtype)
{
    qn_storage *s = qn__storage_new_resident(ctx, dtype, &shape);
    if (s == NULL) return NULL;
    if (s->memory->buffer->host != NULL) {
        memset(s->memory->buffer->host, 0, (size_t)bytes_of(s));
        return whole(ctx, s);
    }
    qn__storage_unref(s);
    return filled(ctx, "zeros", shape, 0.0, dtype);
}

qn_tensor *qn_ones(qn_context *ctx, qn_shape shape, qn_dtype dtype) { return filled(ctx, "ones", shape, 1.0, dtype); }
qn_tensor *qn_full(qn_context *ctx, qn_shape shape, double value, qn_dtype dtype)
{
    return filled(ctx, "full", shape, value, dtype);
}
qn_tensor *qn_scalar(qn_context *ctx, double value, qn_dtype dtype)
{
    return filled(ctx, "scalar", QN_SCALAR, value, dtype);
}

qn_tensor *qn__scalar(qn_context *ctx, double value, qn_dtype dtype)
{
    return made(ctx, "scalar", QN_SCALAR, dtype, number_at, &value);
}

qn_tensor *qn_empty_like(const qn_tensor *t)
{
    return LIVE(t) ? qn_empty(of(t)->ctx, qn_shape_get(t), of(t)->storage->dtype) : NULL;
}
qn_tensor *qn_zeros_like(const qn_tensor *t)
{
    return LIVE(t) ? qn_zeros(of(t)->ctx, qn_shape_get(t), of(t)->storage->dtype) : NULL;
}
qn_tensor *qn_ones_like(const qn_tensor *t)
{
    return LIVE(t) ? qn_ones(of(t)->ctx, qn_shape_get(t), of(t)->storage->dtype) : NULL;
}

qn_tensor *qn_full_like(const qn_tensor *t, double value)
{
    return LIVE(t) ? qn_full(of(t)->ctx, qn_shape_get(t), value, of(t)->storage->dtype) : NULL;
}

qn_tensor *qn_arange(qn_context *ctx, double start, double end, double step, qn_dtype dtype)
{
    const double n = ceil((end - start) / step);
    if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0 || !(n >= 0) || n > 0x1p62) {
        (void)QN_FAIL(qn__err(ctx), invalid, "arange: %g to %g by %g", start, end, step);
        return NULL;
    }
    return made(ctx, "arange", qn_shape_of((int64_t)n), dtype, sequence_at, (const double[]){start, step});
}

qn_tensor *qn_linspace(qn_context *ctx, double start, double end, int64_t steps, qn_dtype dtype)
{
    if (steps < 0 || steps > INT64_C(1) << 53) {
        (void)QN_FAIL(qn__err(ctx), invalid, "linspace: %lld steps", (long long)steps);
        return NULL;
    }
    if (!qn__number_check(ctx, "linspace", start, dtype) || !qn__number_check(ctx, "linspace", end, dtype)) return NULL;
    const double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0.0;
    return made(ctx, "linspace", qn_shape_of(steps), dtype, linspace_at,
                (const double[]){start, steps == 1 ? start : end, (double)steps, step});
}

qn_tensor *qn_eye(qn_context *ctx, int64_t rows, int64_t columns, qn_dtype dtype)
{
    return made(ctx, "eye", qn_shape_of(rows, columns), dtype, eye_at, (const double[]){(double)columns});
}

/* ---- memory of somebody else ---- */

qn_tensor *qn__wrap(qn_context *ctx, const char *name, const qn_layout *given, qn_dtype dtype, const qn_wrapped *how)
{
    qn_error *err = qn__err(ctx);
    qn_layout layout = *given;
    const qn_dtype_info *info = qn_dtype_get(dtype);
    if (qn__layout_check(name, &layout, err) != QN_OK) return NULL;
    int64_t begin, end;
    qn_layout_range(&layout, &begin, &end);
    const bool dense = qn_layout_is_contiguous(&layout);
    const size_t align = info->block_elems == 1 && info->block_bytes > 0 ? (size_t)info->block_bytes : 1;
    if ((!dense && info->block_elems > 1) || (how->data == NULL && end > begin) ||
        ctx->backend->type->buffer_wrap == NULL) {
        (void)QN_FAIL(err, invalid, "%s: %s", name,
                      how->data == NULL ? "no memory" : "the strides or the backend do not allow it");
        return NULL;
    }
    if ((uintptr_t)how->data % align != 0) {
        (void)QN_FAIL(err, invalid, "%s: the address %p is no multiple of %zu, the size of %s", name, how->data, align,
                      info->name);
        return NULL;
    }
    /* What lies lowest comes first in the storage: negative strides reach there from the offset. */
    const void *lowest = begin < 0 ? (const char *)how->data + begin * info->block_bytes : how->data;
    layout.offset = begin < 0 ? -begin : 0;
    const qn_shape memory = dense ? qn_layout_shape(&layout) : qn_shape_of(end - begin);
    qn_storage *s = qn__storage_new(ctx, dtype, &memory);
    qn_memory *m = s != NULL ? qn__slab_get(ctx, &ctx->memories) : NULL;
    if (m == NULL) {
        if (s != NULL) qn__storage_unref(s);
        return NULL;
    }
    *m = (qn_memory){.class_ = -1};
    if (ctx->backend->type->buffer_wrap(ctx->backend, lowest, (uint64_t)bytes_of(s), &m->buffer, qn__err(ctx)) ==
        QN_OK) {
        m->buffer->read_only = how->read_only;
        m->buffer->borrowed = true;
        s->memory = m;
        qn_tensor *t = qn__tensor_new(ctx, s, &layout); /* takes s over in any case */
        if (t != NULL) m->deleter = how->deleter, m->arg = how->arg;
        return t;
    }
    qn__slab_put(&ctx->memories, m);
    qn__storage_unref(s);
    return NULL;
}

qn_tensor *qn_from_blob(qn_context *ctx, void *data, qn_shape shape, const int64_t *strides, qn_dtype dtype,
                        void (*deleter)(void *arg), void *arg)
{
    qn_error *err = qn__err(ctx);
    qn_layout layout;
    if (qn_layout_contiguous(&shape, &layout, err) != QN_OK) return NULL;
    if (strides != NULL) memcpy(layout.stride, strides, (size_t)layout.rank * sizeof layout.stride[0]);
    for (int d = 0; d < layout.rank; d++) {
        if (layout.stride[d] >= 0 || layout.dim[d] < 2) continue;
        (void)QN_FAIL(err, invalid, "from_blob: strides reach before the start");
        return NULL;
    }
    return qn__wrap(ctx, "from_blob", &layout, dtype, &(qn_wrapped){.data = data, .deleter = deleter, .arg = arg});
}
