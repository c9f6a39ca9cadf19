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

/* Where what is made lies. */
static int place_in(const qn_context *ctx) { return ctx != NULL ? ctx->place : 0; }

static qn_tensor *empty_at(qn_context *ctx, int place, qn_shape shape, qn_dtype dtype)
{
    return whole(ctx, qn__storage_new_resident(ctx, place, dtype, &shape));
}

qn_tensor *qn_empty(qn_context *ctx, qn_shape shape, qn_dtype dtype)
{
    return empty_at(ctx, place_in(ctx), shape, dtype);
}

qn_tensor *qn_from_data(qn_context *ctx, const void *data, qn_shape shape, qn_dtype dtype)
{
    return qn__from_data_at(ctx, place_in(ctx), data, shape, dtype);
}

qn_tensor *qn__from_data_at(qn_context *ctx, int place, const void *data, qn_shape shape, qn_dtype dtype)
{
    qn_storage *s = qn__storage_new_resident(ctx, place, dtype, &shape);
    if (s == NULL) return NULL;
    const int64_t bytes = bytes_of(s);
    if (bytes > 0 && !qn__given_at(ctx, data, "from_data", "data")) {
        qn__storage_unref(s);
        return NULL;
    }
    if (!qn__storage_fill(s, data, (uint64_t)bytes)) {
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

static qn_tensor *made(qn_context *ctx, int place, const char *name, qn_shape shape, qn_dtype dtype, maker make,
                       const double *p)
{
    qn_storage *s = qn__storage_new_resident(ctx, place, dtype, &shape);
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
    if (good && copy != NULL) good = qn__storage_fill(s, copy, bytes);
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

static qn_tensor *filled(qn_context *ctx, int place, const char *name, qn_shape shape, double value, qn_dtype dtype)
{
    if (!qn__number_check(ctx, name, value, dtype)) return NULL;
    return made(ctx, place, name, shape, dtype, number_at, &value);
}

static qn_tensor *zeros_at(qn_context *ctx, int place, qn_shape shape, qn_dtype dtype)
{
    qn_storage *s = qn__storage_new_resident(ctx, place, dtype, &shape);
    if (s == NULL) return NULL;
    if (s->memory->buffer->host != NULL) {
        memset(s->memory->buffer->host, 0, (size_t)bytes_of(s));
        return whole(ctx, s);
    }
    qn__storage_unref(s);
    return filled(ctx, place, "zeros", shape, 0.0, dtype);
}

qn_tensor *qn_zeros(qn_context *ctx, qn_shape shape, qn_dtype dtype)
{
    return zeros_at(ctx, place_in(ctx), shape, dtype);
}
qn_tensor *qn_ones(qn_context *ctx, qn_shape shape, qn_dtype dtype)
{
    return filled(ctx, place_in(ctx), "ones", shape, 1.0, dtype);
}
qn_tensor *qn_full(qn_context *ctx, qn_shape shape, double value, qn_dtype dtype)
{
    return filled(ctx, place_in(ctx), "full", shape, value, dtype);
}
qn_tensor *qn_scalar(qn_context *ctx, double value, qn_dtype dtype)
{
    return filled(ctx, place_in(ctx), "scalar", QN_SCALAR, value, dtype);
}

qn_tensor *qn__scalar(qn_context *ctx, int place, double value, qn_dtype dtype)
{
    return made(ctx, place, "scalar", QN_SCALAR, dtype, number_at, &value);
}

#define LIKE(t, call, ...) LIVE(t) ? call(of(t)->ctx, qn__place_of(t), __VA_ARGS__, of(t)->storage->dtype) : NULL
qn_tensor *qn_empty_like(const qn_tensor *t) { return LIKE(t, empty_at, qn_shape_get(t)); }
qn_tensor *qn_zeros_like(const qn_tensor *t) { return LIKE(t, zeros_at, qn_shape_get(t)); }
qn_tensor *qn_ones_like(const qn_tensor *t) { return LIKE(t, filled, "ones", qn_shape_get(t), 1.0); }
qn_tensor *qn_full_like(const qn_tensor *t, double value) { return LIKE(t, filled, "full", qn_shape_get(t), value); }

qn_tensor *qn_arange(qn_context *ctx, double start, double end, double step, qn_dtype dtype)
{
    const double n = ceil((end - start) / step);
    if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0 || !(n >= 0) || n > 0x1p62) {
        (void)QN_FAIL(qn__err(ctx), invalid, "arange: %g to %g by %g", start, end, step);
        return NULL;
    }
    return made(ctx, place_in(ctx), "arange", qn_shape_of((int64_t)n), dtype, sequence_at,
                (const double[]){start, step});
}

qn_tensor *qn_linspace(qn_context *ctx, double start, double end, int64_t steps, qn_dtype dtype)
{
    if (steps < 0 || steps > INT64_C(1) << 53) {
        (void)QN_FAIL(qn__err(ctx), invalid, "linspace: %lld steps", (long long)steps);
        return NULL;
    }
    if (!qn__number_check(ctx, "linspace", start, dtype) || !qn__number_check(ctx, "linspace", end, dtype)) return NULL;
    const double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0.0;
    return made(ctx, place_in(ctx), "linspace", qn_shape_of(steps), dtype, linspace_at,
                (const double[]){start, steps == 1 ? start : end, (double)steps, step});
}

qn_tensor *qn_eye(qn_context *ctx, int64_t rows, int64_t columns, qn_dtype dtype)
{
    return made(ctx, place_in(ctx), "eye", qn_shape_of(rows, columns), dtype, eye_at,
                (const double[]){(double)columns});
}

/* ---- memory of somebody else ---- */

/* A buffer over what lies lowest of it; *ahead: elements of that before what lies lowest. */
static qn_status buffer_over(qn_backend *be, const qn_wrapped *how, int64_t lowest, int64_t unit, uint64_t bytes,
                             int64_t *ahead, qn_buffer **out, qn_error *err)
{
    *ahead = 0;
    if (!how->on_device) return be->type->buffer_wrap(be, (const char *)how->data + lowest * unit, bytes, out, err);
    const int64_t first = (int64_t)how->from + lowest * unit;
    if (be->type->dl_is_address) return be->type->dl_wrap(be, (char *)how->data + first, bytes, out, err);
    if (how->from > INT64_MAX / 2 || first < 0 || first % unit != 0)
        return QN_FAIL(err, invalid, "element 0 lies %lld bytes from the memory's start", (long long)first);
    *ahead = first / unit;
    return be->type->dl_wrap(be, how->data, (uint64_t)first + bytes, out, err);
}

/* The strides, the address: can a tensor lie like that? */
static bool can_wrap(const char *name, const qn_backend *be, const qn_layout *layout, qn_dtype dtype,
                     const qn_wrapped *how, qn_error *err)
{
    const qn_dtype_info *info = qn_dtype_get(dtype);
    int64_t begin, end;
    qn_layout_range(layout, &begin, &end);
    const size_t align = info->block_elems == 1 && info->block_bytes > 0 ? (size_t)info->block_bytes : 1;
    if (how->data == NULL && end > begin)
        (void)QN_FAIL(err, invalid, "%s: no memory", name);
    else if (!how->on_device && be->type->buffer_wrap == NULL)
        (void)QN_FAIL(err, invalid, "%s: no device of this context computes in memory of the host, as cpu does", name);
    else if (!qn_layout_is_contiguous(layout) && info->block_elems > 1)
        (void)QN_FAIL(err, invalid, "%s: the strides do not allow %s", name, info->name);
    else if ((!how->on_device || be->type->dl_is_address) && ((uintptr_t)how->data + how->from) % align != 0)
        (void)QN_FAIL(err, invalid, "%s: the address %p is no multiple of %zu, the size of %s", name,
                      (void *)((uintptr_t)how->data + how->from), align, info->name);
    else
        return true;
    return false;
}

qn_tensor *qn__wrap(qn_context *ctx, const char *name, const qn_layout *given, qn_dtype dtype, const qn_wrapped *how)
{
    if (ctx == NULL) return NULL;
    qn_error *err = qn__err(ctx);
    qn_layout layout = *given;
    const qn_dtype_info *info = qn_dtype_get(dtype);
    if (qn__layout_check(name, &layout, err) != QN_OK) return NULL;
    const int place = how->on_device ? how->place : qn__place_of_host(ctx);
    qn_backend *be = ctx->backends[place];
    if (!can_wrap(name, be, &layout, dtype, how, err)) return NULL;
    int64_t begin, end, ahead;
    qn_layout_range(&layout, &begin, &end);
    const bool dense = qn_layout_is_contiguous(&layout);
    /* What lies lowest comes first in the storage: negative strides reach there from the offset. */
    const int64_t lowest = begin < 0 ? begin : 0;
    qn_shape memory = dense ? qn_layout_shape(&layout) : qn_shape_of(end - begin);
    qn_storage *s = qn__storage_new(ctx, place, dtype, &memory);
    qn_memory *m = s != NULL ? qn__slab_get(ctx, &ctx->memories) : NULL;
    if (m == NULL) {
        if (s != NULL) qn__storage_unref(s);
        return NULL;
    }
    *m = (qn_memory){.place = place, .class_ = -1};
    if (buffer_over(be, how, lowest, info->block_bytes, (uint64_t)bytes_of(s), &ahead, &m->buffer, qn__err(ctx)) ==
        QN_OK) {
        layout.offset = ahead - lowest;
        if (ahead > 0) { /* a storage begins where its memory does */
            memory = qn_shape_of(ahead + qn_layout_numel(&s->layout));
            (void)qn_layout_contiguous(&memory, &s->layout, NULL);
        }
        m->buffer->read_only = how->read_only;
        m->buffer->borrowed = true;
        s->memory = m;
        qn_tensor *t = qn__tensor_new(ctx, s, &layout); /* takes s over in any case */
        if (t != NULL) m->deleter = how->deleter, m->arg = how->arg;
        return t;
    }
    (void)qn__prefix(ctx->latest, ctx->latest->status, "%s", name);
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
