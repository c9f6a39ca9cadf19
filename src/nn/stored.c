/* SPDX-License-Identifier: MIT */
/* src/nn/stored.c -- one face for the two formats. */
#include "nn/stored.h"
#include "array/eval/materialize.h"
#include "base/error.h"
#include "base/file.h"
#include "format/native.h"

#include <string.h>

qn_status qn__stored_open(const char *path, qn_stored_file *out, qn_error *err)
{
    qn_map map;
    *out = (qn_stored_file){0};
    QN_TRY(qn__map_open(path, &map, err));
    const bool gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    qn__map_close(&map);
    return gguf ? qn_gguf_open(path, NULL, &out->gguf, err) : qn_safetensors_open(path, NULL, &out->st, err);
}

void qn__stored_close(qn_stored_file *f)
{
    qn_gguf_close(f->gguf);
    qn_safetensors_close(f->st);
}

size_t qn__stored_count(const qn_stored_file *f)
{
    return f->gguf != NULL ? qn_gguf_n_tensors(f->gguf) : qn_safetensors_n_tensors(f->st);
}

static void of_gguf(const qn_stored_file *f, const qn_gguf_tensor *t, qn_stored *out)
{
    *out =
        (qn_stored){t->name, t->dtype, t->shape, t->size_bytes, qn__gguf_is_native(f->gguf) ? t->data : NULL, t, NULL};
}

static void of_safetensors(const qn_safetensors_tensor *t, qn_stored *out)
{
    *out = (qn_stored){t->name, t->dtype, t->shape, t->size_bytes, t->direct ? t->data : NULL, NULL, t};
}

void qn__stored_get(const qn_stored_file *f, size_t i, qn_stored *out)
{
    if (f->gguf != NULL)
        of_gguf(f, qn_gguf_tensor_get(f->gguf, i), out);
    else
        of_safetensors(qn_safetensors_tensor_get(f->st, i), out);
}

bool qn__stored_find(const qn_stored_file *f, const char *name, qn_stored *out)
{
    const qn_gguf_tensor *g = f->gguf != NULL ? qn_gguf_tensor_find(f->gguf, name) : NULL;
    const qn_safetensors_tensor *s = f->gguf == NULL ? qn_safetensors_tensor_find(f->st, name) : NULL;
    if (g != NULL)
        of_gguf(f, g, out);
    else if (s != NULL)
        of_safetensors(s, out);
    return g != NULL || s != NULL;
}

qn_status qn__stored_read(const qn_stored_file *f, const qn_stored *t, void *dst, qn_error *err)
{
    return t->gguf != NULL ? qn__gguf_tensor_native(f->gguf, t->gguf, dst, err)
                           : qn_safetensors_read(f->st, t->st, dst, err);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static qn_status said(const qn_tensor *t, qn_error *err)
{
    const qn_context *ctx = of(t)->ctx;
    if (err != NULL) *err = *ctx->latest, err->status = qn__status(ctx);
    return qn__status(ctx);
}

qn_status qn__values_write(qn_tensor *t, qn_safetensors_writer *w, qn_error *err)
{
    const char *host;
    void *copy;
    const size_t unit = (size_t)qn_dtype_get(qn_dtype_of(t))->block_bytes;
    if (qn__host_of(t, &host, &copy) != QN_OK) return said(t, err);
    qn_safetensors_write_data(w, host + (size_t)of(t)->layout.offset * unit, (size_t)qn_numel(t) * unit);
    qn__free(copy);
    return QN_OK;
}

qn_status qn__values_read(qn_tensor *t, const qn_safetensors *file, const qn_safetensors_tensor *from, qn_error *err)
{
    if (qn_eval(t) != QN_OK) return said(t, err);
    const uint64_t unit = (uint64_t)qn_dtype_get(qn_dtype_of(t))->block_bytes, bytes = (uint64_t)qn_numel(t) * unit,
                   at = (uint64_t)of(t)->layout.offset * unit;
    qn_buffer *buffer = of(t)->storage->memory->buffer;
    if (buffer->host != NULL) return qn_safetensors_read(file, from, (char *)buffer->host + at, err);
    void *copy = qn__alloc((size_t)bytes + 1);
    if (copy == NULL) return QN_FAIL_NOMEM(err, bytes);
    qn_status status = qn_safetensors_read(file, from, copy, err);
    if (status == QN_OK && bytes > 0) status = buffer->backend->type->upload(buffer, at, copy, bytes, err);
    qn__free(copy);
    return status;
}
