/* SPDX-License-Identifier: MIT */
/* src/array/io/files.c -- tensors from and to .npy files. */
#include "array/eval/materialize.h"
#include "base/file.h"
#include "format/npy.h"

#include <string.h>

static qn_status save(qn_tensor *t, const char *path, qn_error *err)
{
    const char *host;
    void *copy;
    qn_npy_writer *w = NULL;
    const qn_shape shape = qn_shape_get(t);
    QN_TRY(qn__host_of(t, &host, &copy));
    const qn_status status = qn_npy_writer_open(path, of(t)->storage->dtype, &shape, &w, err);
    if (status == QN_OK) {
        qn_npy_write(w, host + of(t)->layout.offset * qn_dtype_get(of(t)->storage->dtype)->block_bytes,
                     (uint64_t)qn_numel(t));
    }
    qn__free(copy);
    return status == QN_OK ? qn_npy_writer_commit(w, err) : status;
}

qn_status qn_save_npy(qn_tensor *t, const char *path)
{
    if (!LIVE(t) || !GIVEN(of(t)->ctx, path, "the path")) return QN_STATUS_invalid;
    qn_context *ctx = of(t)->ctx;
    if (qn__npy_kind(of(t)->storage->dtype) == NULL) {
        return QN_FAIL(qn__err(ctx), unsupported, "save_npy: .npy files have no type for %s; convert the tensor first",
                       qn_dtype_get(of(t)->storage->dtype)->name);
    }
    qn_tensor *rows = qn_contiguous(t);
    const qn_status status = rows != NULL ? save(rows, path, qn__err(ctx)) : qn__status(ctx);
    qn_release(rows);
    return status;
}

/* Into memory of its own: the shape as it lies there, which for Fortran order is the other way round. */
static qn_tensor *load(qn_context *ctx, const qn_npy_header *h, const void *file)
{
    qn_shape lying = h->shape;
    for (int i = 0; h->fortran && i < lying.rank; i++) lying.dim[i] = h->shape.dim[lying.rank - 1 - i];
    qn_tensor *t = qn_empty(ctx, lying, h->dtype);
    if (t == NULL) return NULL;
    qn_buffer *buffer = of(t)->storage->memory->buffer;
    void *copy = buffer->host != NULL ? NULL : qn__alloc(h->bytes);
    bool good = buffer->host != NULL || copy != NULL;
    if (!good) (void)QN_FAIL_NOMEM(qn__err(ctx), h->bytes);
    if (good) qn__npy_copy(h, file, copy != NULL ? copy : buffer->host);
    if (copy != NULL) good = qn__storage_fill(of(t)->storage, copy, h->bytes);
    qn__free(copy);
    qn_tensor *transposed = t;
    if (good && h->fortran) {
        int dims[QN_MAX_RANK];
        for (int i = 0; i < lying.rank; i++) dims[i] = lying.rank - 1 - i;
        transposed = qn_permute(t, dims, lying.rank);
    }
    if (!good) transposed = NULL;
    if (transposed != t) qn_release(t);
    return transposed;
}

qn_tensor *qn_load_npy(qn_context *ctx, const char *path)
{
    if (ctx == NULL || !GIVEN(ctx, path, "the path")) return NULL;
    qn_map map;
    qn_npy_header h;
    char label[QN_NPY_LABEL];
    qn__npy_label(path, label);
    if (qn__map_open(path, &map, qn__err(ctx)) != QN_OK) return NULL;
    qn_tensor *t = NULL;
    if (qn__npy_header_read(map.data, map.size, label, INT64_MAX, &h, qn__err(ctx)) == QN_OK)
        t = load(ctx, &h, map.data);
    qn__map_close(&map);
    return t;
}
