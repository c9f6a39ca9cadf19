/* SPDX-License-Identifier: MIT */
/* src/engine/lora_export.c -- adapters merged into a base model: every adapted matrix is unpacked, w + scale b a,
 * packed again. Tensors are streamed a few MiB at a time; what neither an adapter nor a new type touches is copied as
 * it lies in the file. In memory are the chunk and the a of one tensor. Rows are independent, so the file does not
 * depend on the number of threads. */
#include "base/thread.h"
#include "engine/engine.h"
#include "format/native.h"
#include "model/synth.h"
#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)4 << 20)

typedef struct merge_part { /* of one adapter in one tensor */
    float *a;               /* [r, in], times scale */
    const uint8_t *b;       /* [out, r] as in the file, of this machine's byte order */
    qn_dtype b_type;
    int64_t r;
} merge_part;

typedef struct merge_job {
    qn_gguf *base, *files[QN_MAX_LORAS];
    qn_model *model;
    qn_adapter *adapters[QN_MAX_LORAS];
    const qn_lora_file *loras;
    int n;
    const qn_mix *mix; /* NULL: every tensor keeps its type */
    qn_gguf_writer *w;
    qn_pool_user *pool;
    qn_progress_fn progress;
    void *progress_ctx;
    uint64_t done, total;
    /* of the tensor at hand */
    merge_part part[QN_MAX_LORAS];
    int n_parts;
    qn_dtype from, to;
    int64_t k, first, n_rows, n_scratch;
    const uint8_t *src; /* rows from `first` on */
    uint8_t *dst;
    float *scratch;    /* n_scratch a member */
    qn_status *status; /* by member */
    qn_error *error;
} merge_job;

/* ---- what becomes of a tensor ---- */

static const qn_weight *weight_of(const merge_job *j, const qn_gguf_tensor *t)
{
    for (int i = 0; i < j->model->n_weights; i++)
        if (j->model->weights[i].tensor == t) return &j->model->weights[i];
    return NULL;
}

static bool is_adapted(const merge_job *j, const qn_weight *w)
{
    for (int i = 0; w && i < j->n; i++)
        if (j->adapters[i]->of[w->index].a.tensor) return true;
    return false;
}

static qn_dtype new_type(const merge_job *j, const qn_gguf_tensor *t)
{
    const qn_weight *w = weight_of(j, t);
    int layer = -1;
    if (!j->mix || !w || w->shape.rank != 2) return t->dtype;
    (void)sscanf(t->name, "blk.%d.", &layer);
    const qn_dtype dtype = qn__mix_dtype(j->mix, t->name, layer, (int)j->model->hp.n_layer);
    const int64_t k = t->shape.dim[1];
    return k % qn_dtype_get(dtype)->block_elems == 0 ? dtype : k % 32 == 0 ? QN_DTYPE_Q8_0 : QN_DTYPE_F16;
}

static qn_status declare(merge_job *j, qn_error *err)
{
    for (size_t i = 0; i < qn_gguf_n_kv(j->base); i++) {
        const qn_gguf_kv *kv = qn_gguf_kv_get(j->base, i);
        if (!strcmp(kv->key, "general.alignment") || !strncmp(kv->key, "split.", 6) ||
            (j->mix && !strcmp(kv->key, "general.file_type")))
            continue;
        qn_gguf_write_kv(j->w, j->base, kv);
    }
    if (j->mix) qn_gguf_write_u32(j->w, "general.file_type", qn__mix_file_type(j->mix));
    for (size_t i = 0; i < qn_gguf_n_tensors(j->base); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(j->base, i);
        const qn_dtype dtype = new_type(j, t);
        if (!qn_dtype_can_pack(dtype) && is_adapted(j, weight_of(j, t)))
            return QN_FAIL(
                err, unsupported,
                "tensor %s is %s, which can be read but not written; name another type for the result (--type)",
                t->name, qn_dtype_get(dtype)->name);
        qn_gguf_declare(j->w, t->name, dtype, &t->shape);
        j->total += t->size_bytes;
    }
    return qn_gguf_writer_status(j->w, err);
}

/* ---- rows ---- */

static qn_status merge_row(const merge_job *j, int64_t row, float *x, float *b, qn_error *err)
{
    const int64_t from_bytes = qn_dtype_row_bytes(j->from, j->k), to_bytes = qn_dtype_row_bytes(j->to, j->k);
    QN_TRY(qn_unpack(j->from, j->src + row * from_bytes, x, j->k, err));
    for (int p = 0; p < j->n_parts; p++) {
        const merge_part *part = &j->part[p];
        QN_TRY(qn_unpack(part->b_type, part->b + (j->first + row) * qn_dtype_row_bytes(part->b_type, part->r), b,
                         part->r, err));
        for (int64_t i = 0; i < part->r; i++)
            for (int64_t c = 0; c < j->k; c++) x[c] += b[i] * part->a[i * j->k + c];
    }
    return qn_pack(j->to, x, j->dst + row * to_bytes, 1, j->k, NULL, err);
}

static void merge_rows(void *ctx, int member, int n_members)
{
    merge_job *j = ctx;
    (void)n_members;
    float *x = j->scratch + member * j->n_scratch;
    int64_t begin, end;
    while (qn__team_next(qn__pool_team(j->pool), j->n_rows, 4, &begin, &end))
        for (int64_t row = begin; row < end; row++)
            if (j->status[member] == QN_OK) j->status[member] = merge_row(j, row, x, x + j->k, &j->error[member]);
}

static qn_status report(merge_job *j, uint64_t bytes, qn_error *err)
{
    QN_TRY(qn_gguf_writer_status(j->w, err)); /* a full disk ends it now, not after gigabytes */
    j->done += bytes;
    if (!j->progress || j->progress(j->progress_ctx, j->done, j->total)) return QN_OK;
    return QN_FAIL(err, cancelled, "cancelled after %llu of %llu bytes", (unsigned long long)j->done,
                   (unsigned long long)j->total);
}

static qn_status merge_chunks(merge_job *j, const qn_gguf_tensor *t, const uint8_t *data, qn_error *err)
{
    const int64_t rows = qn_shape_numel(&t->shape) / j->k, to_bytes = qn_dtype_row_bytes(j->to, j->k),
                  from_bytes = qn_dtype_row_bytes(j->from, j->k);
    const int64_t most = (int64_t)CHUNK_BYTES / to_bytes + 1;
    j->dst = qn__alloc((size_t)(most < rows ? most : rows) * (size_t)to_bytes);
    qn_status status = j->dst ? QN_OK : QN_FAIL_NOMEM(err, (size_t)(most * to_bytes));
    for (j->first = 0; status == QN_OK && j->first < rows; j->first += j->n_rows) {
        j->n_rows = rows - j->first < most ? rows - j->first : most;
        j->src = data + j->first * from_bytes;
        qn__pool_run(j->pool, merge_rows, j);
        for (int i = 0; i < qn__pool_size(j->pool) && status == QN_OK; i++) {
            if (j->status[i] == QN_OK) continue;
            status = j->status[i];
            if (err) *err = j->error[i];
            (void)qn__prefix(err, status, "tensor %s", t->name);
        }
        if (status == QN_OK) qn_gguf_write_data(j->w, j->dst, (size_t)(j->n_rows * to_bytes));
        if (status == QN_OK) status = report(j, (uint64_t)(j->n_rows * from_bytes), err);
    }
    qn__free(j->dst);
    j->dst = NULL;
    return status;
}

/* ---- one tensor ---- */

/* A tensor's bytes in this machine's order: in the mapping, or a copy that goes to *copy. */
static qn_status native_bytes(const qn_gguf *file, const qn_gguf_tensor *t, void **copy, const void **out,
                              qn_error *err)
{
    *copy = NULL;
    *out = t->data;
    if (qn__gguf_is_native(file)) return QN_OK;
    *out = *copy = qn__alloc(t->size_bytes);
    return *copy ? qn__gguf_tensor_native(file, t, *copy, err) : QN_FAIL_NOMEM(err, t->size_bytes);
}

static qn_status add_part(merge_job *j, int lora, const qn_weight *w, void **copies, qn_error *err)
{
    const qn_adapter *adapter = j->adapters[lora];
    const qn_lora_pair *pair = &adapter->of[w->index];
    const float factor = j->loras[lora].scale * qn__adapter_factor(adapter, pair);
    if (!pair->a.tensor || factor == 0) return QN_OK;
    merge_part *part = &j->part[j->n_parts++];
    *part = (merge_part){.b_type = pair->b.dtype, .r = pair->a.shape.dim[0]};
    const void *a, *b;
    void *a_copy = NULL;
    const size_t n = (size_t)part->r * (size_t)j->k;
    QN_TRY(native_bytes(j->files[lora], pair->b.tensor, &copies[lora], &b, err));
    part->b = b;
    part->a = qn__alloc(n * sizeof(float));
    if (!part->a) return QN_FAIL_NOMEM(err, n * sizeof(float));
    qn_status status = native_bytes(j->files[lora], pair->a.tensor, &a_copy, &a, err);
    if (status == QN_OK) status = qn_unpack(pair->a.dtype, a, part->a, (int64_t)n, err);
    for (size_t i = 0; status == QN_OK && i < n; i++) part->a[i] *= factor;
    qn__free(a_copy);
    return status;
}

static qn_status make_scratch(merge_job *j, qn_error *err)
{
    const int members = qn__pool_size(j->pool);
    int64_t rank = 0;
    for (int i = 0; i < j->n_parts; i++) rank = j->part[i].r > rank ? j->part[i].r : rank;
    j->n_scratch = (j->k + rank + 15) / 16 * 16;
    qn__free(j->scratch);
    j->scratch = qn__alloc((size_t)j->n_scratch * (size_t)members * sizeof(float));
    return j->scratch ? QN_OK : QN_FAIL_NOMEM(err, (size_t)j->n_scratch * (size_t)members * sizeof(float));
}

static qn_status merge_tensor(merge_job *j, const qn_gguf_tensor *t, qn_error *err)
{
    const qn_weight *w = weight_of(j, t);
    void *copy = NULL, *copies[QN_MAX_LORAS] = {0};
    const void *data = NULL;
    j->n_parts = 0;
    j->from = t->dtype;
    j->to = new_type(j, t);
    j->k = t->shape.dim[t->shape.rank - 1];
    qn_status status = native_bytes(j->base, t, &copy, &data, err);
    for (int i = 0; w && i < j->n && status == QN_OK; i++) status = add_part(j, i, w, copies, err);
    if (status == QN_OK && j->n_parts == 0 && j->to == j->from) {
        for (uint64_t at = 0; at < t->size_bytes && status == QN_OK;) {
            const uint64_t n = t->size_bytes - at < CHUNK_BYTES ? t->size_bytes - at : CHUNK_BYTES;
            qn_gguf_write_data(j->w, (const uint8_t *)data + at, (size_t)n);
            status = report(j, n, err);
            at += n;
        }
    } else if (status == QN_OK) {
        status = make_scratch(j, err);
        if (status == QN_OK) status = merge_chunks(j, t, data, err);
    }
    for (int i = 0; i < j->n_parts; i++) qn__free(j->part[i].a);
    for (int i = 0; i < j->n; i++) qn__free(copies[i]);
    qn__free(copy);
    return status;
}

/* ---- the whole ---- */

static qn_status open_all(merge_job *j, const char *base, const qn_lora_export_options *o, qn_error *err)
{
    if (j->n < 1 || j->n > QN_MAX_LORAS)
        return QN_FAIL(err, invalid, "%d adapters to merge; 1 to %d are possible", j->n, QN_MAX_LORAS);
    if (o->type && !(j->mix = qn__mix_find(o->type, QN_MIX_packs)))
        return QN_FAIL(err, invalid, "type \"%.32s\" is none that can be written, such as F16, Q8_0 or Q4_K_M",
                       o->type);
    QN_TRY(qn_gguf_open(base, NULL, &j->base, err));
    QN_TRY(qn__prefix(err, qn__model_load(j->base, 0, &j->model, err), "%s", base));
    for (int i = 0; i < j->n; i++) {
        const float scale = j->loras[i].scale;
        if (!(scale >= -1e6f && scale <= 1e6f))
            return QN_FAIL(err, invalid, "adapter %s has scale %g; -1e6 to 1e6 are possible", j->loras[i].path,
                           (double)scale);
        QN_TRY(qn_gguf_open(j->loras[i].path, NULL, &j->files[i], err));
        QN_TRY(qn__prefix(err, qn__adapter_load(j->model, j->files[i], &j->adapters[i], err), "%s", j->loras[i].path));
    }
    QN_TRY(qn__pool_join(o->n_threads, &j->pool, err));
    j->status = qn__calloc((size_t)qn__pool_size(j->pool), sizeof(*j->status));
    j->error = qn__calloc((size_t)qn__pool_size(j->pool), sizeof(*j->error));
    return j->status && j->error ? QN_OK : QN_FAIL(err, nomem, "out of memory for %d threads", qn__pool_size(j->pool));
}

static qn_status write_all(merge_job *j, const char *out, qn_error *err)
{
    QN_TRY(qn_gguf_writer_create(out, &j->w, err));
    qn_status status = declare(j, err);
    for (size_t i = 0; i < qn_gguf_n_tensors(j->base) && status == QN_OK; i++)
        status = merge_tensor(j, qn_gguf_tensor_get(j->base, i), err);
    /* Ending the file is what tells why a write failed. */
    if (status == QN_OK || qn_gguf_writer_status(j->w, NULL) != QN_OK) return qn_gguf_writer_commit(j->w, err);
    qn_gguf_writer_abort(j->w);
    return status;
}

qn_status qn_lora_export(const char *base, const qn_lora_file *loras, int n, const char *out,
                         const qn_lora_export_options *options, qn_error *err)
{
    static const qn_lora_export_options defaults;
    const qn_lora_export_options *o = options ? options : &defaults;
    merge_job j = {.loras = loras, .n = n, .progress = o->progress, .progress_ctx = o->progress_ctx};
    qn_status status = open_all(&j, base, o, err);
    if (status == QN_OK) status = write_all(&j, out, err);
    qn__free(j.scratch);
    qn__free(j.status);
    qn__free(j.error);
    qn__pool_leave(j.pool);
    for (int i = 0; i < n && i < QN_MAX_LORAS; i++) {
        qn__adapter_free(j.adapters[i]);
        qn_gguf_close(j.files[i]);
    }
    qn__model_free(j.model);
    qn_gguf_close(j.base);
    return status;
}
