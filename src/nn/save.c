/* SPDX-License-Identifier: MIT */
/* src/nn/save.c -- parameters and buffers to a file, one tensor in memory at a time. GGUF has no tensors without
 * dimensions: a scalar is stored as one element, and comes back as a scalar. */
#include "format/gguf_writer.h"
#include "nn/module.h"
#include <quern/safetensors.h>

#include <string.h>

typedef struct save_job {
    qn_module *m;
    qn_listing list;
    qn_dtype *dtypes; /* what each listed tensor is stored as */
    const qn_save_options *options;
    qn_gguf_writer *gguf; /* one of the two */
    qn_safetensors_writer *st;
} save_job;

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* ---- what a tensor is stored as ---- */

static qn_status choose(save_job *job, const qn_listed *item, qn_dtype *out, qn_error *err)
{
    const qn_tensor *t = item->slot->tensor;
    const qn_dtype have = qn_dtype_of(t);
    const qn_save_options *o = job->options;
    const qn_dtype want = o != NULL && o->dtype_of != NULL ? o->dtype_of(o->arg, item->path, t) : have;
    const qn_dtype_info *to = qn_dtype_get(want);
    char text[192];
    const qn_shape shape = qn_shape_get(t);
    *out = want;
    if (want == have) return QN_OK;
    if ((unsigned)want >= QN_DTYPE_COUNT || !qn__is_real(have) ||
        (to->class_ != QN_CLASS_real && to->class_ != QN_CLASS_block)) {
        return QN_FAIL(err, unsupported, "tensor %s: %s cannot be stored as %s", item->path, qn_dtype_get(have)->name,
                       to->name);
    }
    const int64_t row = shape.rank > 0 ? shape.dim[shape.rank - 1] : 1;
    if (to->class_ == QN_CLASS_real) return QN_OK;
    if (!qn_dtype_can_pack(want))
        return QN_FAIL(err, unsupported, "tensor %s: %s can only be unpacked", item->path, to->name);
    if (row % to->block_elems == 0) return QN_OK;
    return QN_FAIL(err, invalid, "tensor %s: rows of %s do not divide into blocks of %d for %s", item->path,
                   qn_shape_print(&shape, text, sizeof text), to->block_elems, to->name);
}

/* ---- bytes ---- */

/* The values in a real dtype, row-major, in memory that is freed with qn__free. */
static qn_status bytes_of(qn_tensor *t, qn_dtype dtype, char **out, size_t *size, qn_error *err)
{
    qn_context *ctx = qn_context_of(t);
    const qn_dtype_info *info = qn_dtype_get(dtype);
    const size_t bytes = (size_t)(qn_numel(t) / info->block_elems * info->block_bytes);
    char *p = qn__alloc(bytes + 1);
    if (p == NULL) return QN_FAIL_NOMEM(err, bytes);
    qn_tensor *plain = qn_detach(t), *as = plain != NULL ? qn_to(plain, dtype) : NULL;
    const bool good = as != NULL && qn_to_host(as, p, bytes) == QN_OK;
    qn_release(as);
    qn_release(plain);
    if (good) {
        *out = p;
        *size = bytes;
        return QN_OK;
    }
    qn__free(p);
    if (err != NULL) *err = *ctx->latest;
    return qn__status(ctx);
}

static qn_status pack(qn_tensor *t, qn_dtype dtype, char **out, size_t *size, qn_error *err)
{
    char *values;
    size_t n_bytes;
    const qn_dtype_info *info = qn_dtype_get(dtype);
    QN_TRY(bytes_of(t, QN_DTYPE_F32, &values, &n_bytes, err));
    const int64_t n = qn_numel(t), row = qn_dim(t, -1);
    const size_t bytes = (size_t)(n / info->block_elems * info->block_bytes);
    char *p = qn__alloc(bytes + 1);
    qn_status status = p != NULL ? QN_OK : QN_FAIL_NOMEM(err, bytes);
    if (status == QN_OK && n > 0)
        status = qn_pack(dtype, (const float *)(const void *)values, p, n / row, row, NULL, err);
    qn__free(values);
    if (status == QN_OK) {
        *out = p;
        *size = bytes;
    } else {
        qn__free(p);
    }
    return status;
}

static qn_status stored_bytes(const save_job *job, int64_t i, char **out, size_t *size, qn_error *err)
{
    qn_tensor *t = job->list.items[i].slot->tensor;
    const qn_dtype want = job->dtypes[i];
    const qn_status status = qn_dtype_get(want)->class_ == QN_CLASS_block && qn_dtype_of(t) != want
                                 ? pack(t, want, out, size, err)
                                 : bytes_of(t, want, out, size, err);
    return status == QN_OK ? status : qn__prefix(err, status, "tensor %s", job->list.items[i].path);
}

/* ---- GGUF ---- */

static void metadata(const save_job *job)
{
    qn_gguf_writer *w = job->gguf;
    if (job->m->type->gguf != NULL) job->m->type->gguf(job->m, w);
    if (job->options != NULL && job->options->metadata != NULL) job->options->metadata(job->options->arg, w);
    for (size_t i = 0; i < w->n_keys; i++) {
        if (strcmp(w->keys[i], "general.architecture") == 0) return;
    }
    qn_gguf_write_str(w, "general.architecture", "module");
}

static qn_status write_gguf(save_job *job, qn_error *err)
{
    metadata(job);
    for (int64_t i = 0; i < job->list.n; i++) {
        if (job->list.items[i].first != i) continue;
        qn_shape shape = qn_shape_get(job->list.items[i].slot->tensor);
        if (shape.rank == 0) shape = qn_shape_of(1);
        qn_gguf_declare(job->gguf, job->list.items[i].path, job->dtypes[i], &shape);
    }
    for (int64_t i = 0; i < job->list.n; i++) {
        if (job->list.items[i].first != i) continue;
        QN_TRY(qn_gguf_writer_status(job->gguf, err));
        char *bytes;
        size_t size;
        QN_TRY(stored_bytes(job, i, &bytes, &size, err));
        qn_gguf_write_data(job->gguf, bytes, size);
        qn__free(bytes);
    }
    return QN_OK;
}

/* ---- safetensors ---- */

static qn_status write_safetensors(save_job *job, qn_error *err)
{
    size_t n = 0, next;
    /* which listed tensor each declared one is */
    int64_t *declared = qn__alloc(((size_t)job->list.n + 1) * sizeof *declared);
    if (declared == NULL) return QN_FAIL_NOMEM(err, ((size_t)job->list.n + 1) * sizeof *declared);
    for (int64_t i = 0; i < job->list.n; i++) {
        if (job->list.items[i].first != i) continue;
        const qn_shape shape = qn_shape_get(job->list.items[i].slot->tensor);
        qn_safetensors_declare(job->st, job->list.items[i].path, job->dtypes[i], &shape);
        declared[n++] = i;
    }
    qn_status status = qn_safetensors_writer_status(job->st, err);
    while (status == QN_OK && (next = qn_safetensors_writer_next(job->st)) < n) {
        char *bytes;
        size_t size;
        status = stored_bytes(job, declared[next], &bytes, &size, err);
        if (status != QN_OK) break;
        qn_safetensors_write_data(job->st, bytes, size);
        qn__free(bytes);
        status = qn_safetensors_writer_status(job->st, err);
    }
    qn__free(declared);
    return status;
}

/* Ends the writer: with the file, or, when something else failed, without; its own error comes first. */
static qn_status finish(save_job *job, qn_status status, qn_error *err)
{
    if (job->gguf != NULL) {
        if (status == QN_OK || qn_gguf_writer_status(job->gguf, NULL) != QN_OK)
            return qn_gguf_writer_commit(job->gguf, err);
        qn_gguf_writer_abort(job->gguf);
    } else if (job->st != NULL) {
        if (status == QN_OK || qn_safetensors_writer_status(job->st, NULL) != QN_OK)
            return qn_safetensors_writer_commit(job->st, err);
        qn_safetensors_writer_abort(job->st);
    }
    return status;
}

static qn_status save(save_job *job, const char *path, qn_error *err)
{
    char quoted[320];
    const bool gguf = ends_with(path, ".gguf");
    if (!gguf && !ends_with(path, ".safetensors")) {
        return QN_FAIL(err, invalid, "%s: a name that ends in .gguf or .safetensors is expected",
                       qn__str_quote(quoted, sizeof quoted, path, strlen(path)));
    }
    QN_TRY(qn__listing_init(job->m, &job->list, err));
    job->dtypes = qn__calloc((size_t)job->list.n + 1, sizeof *job->dtypes);
    if (job->dtypes == NULL) return QN_FAIL_NOMEM(err, (size_t)job->list.n * sizeof *job->dtypes);
    for (int64_t i = 0; i < job->list.n; i++) {
        if (job->list.items[i].first == i) QN_TRY(choose(job, &job->list.items[i], &job->dtypes[i], err));
    }
    if (gguf)
        QN_TRY(qn_gguf_writer_create(path, &job->gguf, err));
    else
        QN_TRY(qn_safetensors_writer_create(path, &job->st, err));
    return finish(job, gguf ? write_gguf(job, err) : write_safetensors(job, err), err);
}

qn_status qn_module_save(qn_module *m, const char *path, const qn_save_options *options, qn_error *err)
{
    if (m == NULL || path == NULL) return QN_FAIL(err, invalid, "save: there is no %s", m == NULL ? "module" : "path");
    save_job job = {.m = m, .options = options};
    const qn_error was = qn__begin_errors(m->ctx);
    qn__arena_init(&job.list.arena, 0);
    const qn_status status = save(&job, path, err);
    qn__free(job.dtypes);
    qn__listing_deinit(&job.list);
    m->ctx->error = was;
    return status;
}
