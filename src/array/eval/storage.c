/* SPDX-License-Identifier: MIT */
/* src/array/eval/storage.c -- storages: made, listed while their value is pending, ended with their last reference. */
#include "array/array.h"

qn_storage *qn__storage_new(qn_context *ctx, int place, qn_dtype dtype, const qn_shape *shape)
{
    if (ctx == NULL) return NULL;
    qn_error *err = qn__err(ctx);
    if ((unsigned)dtype >= QN_DTYPE_COUNT) {
        (void)QN_FAIL(err, invalid, "dtype %d does not exist", (int)dtype);
        return NULL;
    }
    qn_layout layout;
    if (qn_layout_contiguous(shape, &layout, err) != QN_OK) return NULL;
    const qn_dtype_info *info = qn_dtype_get(dtype);
    char text[192];
    const int64_t last = layout.rank > 0 ? layout.dim[layout.rank - 1] : 1;
    if (last % info->block_elems != 0 ||
        qn_layout_numel(&layout) / info->block_elems > INT64_MAX / 2 / info->block_bytes) {
        (void)QN_FAIL(err, invalid, "%s of %s: %s", info->name, qn_shape_print(shape, text, sizeof text),
                      last % info->block_elems != 0 ? "rows do not divide into blocks" : "more bytes than there are");
        return NULL;
    }
    qn_storage *s = qn__slab_get(ctx, &ctx->storages);
    if (s == NULL) return NULL;
    *s = (qn_storage){
        .ctx = ctx, .refs = 1, .number = ++ctx->n_numbered, .dtype = dtype, .place = place, .layout = layout};
    ctx->n_storages++;
    return s;
}

static uint64_t bytes_of(const qn_storage *s)
{
    const qn_dtype_info *info = qn_dtype_get(s->dtype);
    return (uint64_t)(qn_layout_numel(&s->layout) / info->block_elems * info->block_bytes);
}

qn_storage *qn__storage_new_resident(qn_context *ctx, int place, qn_dtype dtype, const qn_shape *shape)
{
    qn_storage *s = qn__storage_new(ctx, place, dtype, shape);
    if (s == NULL) return NULL;
    if (qn__memory_get(ctx, place, bytes_of(s), &s->memory, qn__err(ctx)) == QN_OK) return s;
    qn__storage_unref(s);
    return NULL;
}

bool qn__storage_fill(qn_storage *s, const void *data, uint64_t bytes)
{
    qn_buffer *buffer = s->memory->buffer;
    return bytes == 0 || buffer->backend->type->upload(buffer, 0, data, bytes, qn__err(s->ctx)) == QN_OK;
}

void qn__storage_list(qn_storage *s)
{
    if (s->listed) return;
    qn_context *ctx = s->ctx;
    s->listed = true;
    s->prev = ctx->pending_last;
    s->next = NULL;
    if (s->prev != NULL)
        s->prev->next = s;
    else
        ctx->pending = s;
    ctx->pending_last = s;
}

void qn__storage_unlist(qn_storage *s)
{
    if (!s->listed) return;
    qn_context *ctx = s->ctx;
    s->listed = false;
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        ctx->pending = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    else
        ctx->pending_last = s->prev;
}

void qn__storage_drop_handle(qn_storage *s)
{
    qn_auto *a = s->base_fn;
    if (--s->n_handles > 0 || a == NULL) return;
    s->base_fn = NULL;
    qn__auto_unref(a);
}

/* The memory of a storage with a leaf cannot be asked for: the graph's reference is among `refs`. */
void qn__storage_unref(qn_storage *s)
{
    if (--s->refs > 0) return;
    qn_context *ctx = s->ctx;
    qn__storage_unlist(s);
    if (s->memory != NULL) qn__memory_put(ctx, s->memory);
    ctx->n_storages--;
    qn__slab_put(&ctx->storages, s);
}
