/* SPDX-License-Identifier: MIT */
/* src/model/synth.c -- random-weight models in real models' shapes: an architecture's rows say what to write. Bounded
 * memory: one pool of packed numbers a type, and one megabyte on its way to the file. */
#include "model/synth.h"
#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES (1 << 20)

typedef struct qn_synth_job {
    qn_gguf_writer *w;
    const qn_arch *arch;
    const qn_mix *mix;
    qn_hparams hp;
    bool tied;
    qn_gguf *vocab;
    qn_arena arena;
    qn_random_pool *pools[QN_DTYPE_COUNT];
    uint64_t state, done, total;
    uint8_t *chunk;
    qn_progress_fn progress;
    void *progress_ctx;
} qn_synth_job;

/* ---- what is asked for ---- */

static int32_t pick(int32_t asked, int32_t preset) { return asked ? asked : preset; }

static qn_status need(const char *what, int64_t value, int64_t lo, int64_t hi, qn_error *err)
{
    if (value == 0) return QN_FAIL(err, invalid, "%s is not given and there is no preset to take it from", what);
    if (value < lo || value > hi)
        return QN_FAIL(err, invalid, "%s is %lld; %lld to %lld are possible", what, (long long)value, (long long)lo,
                       (long long)hi);
    return QN_OK;
}

static qn_status resolve(qn_synth_job *job, const qn_synth_options *o, qn_error *err)
{
    static const qn_preset none = {.arch = "llama", .n_ctx = 2048, .rope_base = 1e4f};
    const qn_preset *p = o->preset ? qn__preset_find(o->preset) : &none;
    if (!p) {
        char list[256] = "";
        for (const char *const *name = qn_synth_presets(); *name; name++)
            snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", *list ? ", " : "", *name);
        return QN_FAIL(err, invalid, "preset \"%s\" is not known; there are %s", o->preset, list);
    }
    const char *arch = o->arch ? o->arch : p->arch;
    job->arch = qn__arch_find(arch);
    if (!job->arch) return QN_FAIL(err, unsupported, "architecture \"%s\" is not supported", arch);
    job->mix = qn__mix_find(o->type ? o->type : "F16");
    if (!job->mix) return QN_FAIL(err, unsupported, "type \"%s\" is no mix and no type that can be packed", o->type);
    job->tied = o->tied || p->tied;

    int64_t n_vocab = pick(o->n_vocab, p->n_vocab);
    if (o->vocab) {
        QN_TRY(qn_gguf_open(o->vocab, &(qn_gguf_options){.metadata_only = true}, &job->vocab, err));
        const qn_gguf_kv *kv = qn_gguf_kv_find(job->vocab, "tokenizer.ggml.tokens");
        if (!kv || kv->type != QN_GGUF_arr)
            return QN_FAIL(err, format, "%s: tokenizer.ggml.tokens is missing", o->vocab);
        n_vocab = (int64_t)kv->count;
    }
    const int64_t n_head = pick(o->n_head, p->n_head), n_embd = pick(o->n_embd, p->n_embd);
    const int64_t n_kv = pick(o->n_kv_head, p->n_kv_head ? p->n_kv_head : (int32_t)n_head);
    QN_TRY(need("number of layers", pick(o->n_layer, p->n_layer), 1, 4096, err));
    QN_TRY(need("embedding length", n_embd, 1, 1 << 20, err));
    QN_TRY(need("number of heads", n_head, 1, 65536, err));
    QN_TRY(need("number of KV heads", n_kv, 1, n_head, err));
    QN_TRY(need("feed-forward length", pick(o->n_ff, p->n_ff), 1, 1 << 22, err));
    QN_TRY(need("vocabulary", n_vocab, 260, 1 << 24, err));
    QN_TRY(need("context length", pick(o->n_ctx, p->n_ctx), 1, 1 << 28, err));
    int64_t head = o->n_embd_head ? o->n_embd_head : !o->n_embd && !o->n_head ? p->n_embd_head : 0;
    if (!head && n_embd % n_head)
        return QN_FAIL(err, invalid, "embedding length %lld is not a multiple of %lld heads", (long long)n_embd,
                       (long long)n_head);
    if (!head) head = n_embd / n_head;
    QN_TRY(need("head size", head, 2, 65536, err));
    if (n_head % n_kv || head % 2)
        return QN_FAIL(err, invalid, "%lld heads of size %lld over %lld KV heads do not divide evenly",
                       (long long)n_head, (long long)head, (long long)n_kv);

    job->hp = (qn_hparams){
        .n_vocab = (uint32_t)n_vocab,
        .n_ctx_train = (uint32_t)pick(o->n_ctx, p->n_ctx),
        .n_embd = (uint32_t)n_embd,
        .n_layer = (uint32_t)pick(o->n_layer, p->n_layer),
        .n_head = (uint32_t)n_head,
        .n_kv_head = (uint32_t)n_kv,
        .n_embd_head_k = (uint32_t)head,
        .n_embd_head_v = (uint32_t)head,
        .n_ff = (uint32_t)pick(o->n_ff, p->n_ff),
        .n_rot = (uint32_t)head,
        .norm_eps = 1e-5f,
        .rope_base = o->rope_base > 0 ? o->rope_base : p->rope_base,
    };
    job->state = o->seed + UINT64_C(0x51ed2701);
    return QN_OK;
}

/* ---- metadata ---- */

static void write_u32(qn_synth_job *job, const char *key, uint32_t value)
{
    char full[128];
    snprintf(full, sizeof(full), "%s.%s", job->arch->name, key);
    qn_gguf_write_u32(job->w, full, value);
}

static void write_f32(qn_synth_job *job, const char *key, float value)
{
    char full[128];
    snprintf(full, sizeof(full), "%s.%s", job->arch->name, key);
    qn_gguf_write_f32(job->w, full, value);
}

static void write_metadata(qn_synth_job *job, const qn_synth_options *o)
{
    const qn_hparams *hp = &job->hp;
    char name[96];
    snprintf(name, sizeof(name), "synthetic %s", o->preset ? o->preset : job->arch->name);
    qn_gguf_write_str(job->w, "general.architecture", job->arch->name);
    qn_gguf_write_str(job->w, "general.name", name);
    qn_gguf_write_u32(job->w, "general.file_type", qn__mix_file_type(job->mix));
    qn_gguf_write_u32(job->w, "general.quantization_version", 2);
    write_u32(job, "context_length", hp->n_ctx_train);
    write_u32(job, "embedding_length", hp->n_embd);
    write_u32(job, "block_count", hp->n_layer);
    write_u32(job, "feed_forward_length", hp->n_ff);
    write_u32(job, "attention.head_count", hp->n_head);
    write_u32(job, "attention.head_count_kv", hp->n_kv_head);
    write_u32(job, "attention.key_length", hp->n_embd_head_k);
    write_u32(job, "attention.value_length", hp->n_embd_head_v);
    write_f32(job, "attention.layer_norm_rms_epsilon", hp->norm_eps);
    write_u32(job, "rope.dimension_count", hp->n_rot);
    write_f32(job, "rope.freq_base", hp->rope_base);
    write_u32(job, "vocab_size", hp->n_vocab);
    if (job->vocab)
        qn_gguf_write_kvs(job->w, job->vocab, "tokenizer.");
    else
        qn__synth_vocab(job->w, (int32_t)hp->n_vocab, &job->arena);
}

/* ---- tensors ---- */

static bool written(const qn_synth_job *job, const qn_tensor_row *row)
{
    return !(row->flags & W_NO_SYNTH) && !((row->flags & W_TIED) && job->tied);
}

/* The mix's type where the row's length permits; K-quants need 256, the others 32. */
static qn_dtype dtype_of(const qn_synth_job *job, const qn_tensor_row *row, const char *name, int layer,
                         const qn_shape *shape)
{
    if (row->flags & W_VECTOR) return QN_DTYPE_F32;
    const qn_dtype dtype = qn__mix_dtype(job->mix, name, layer, (int)job->hp.n_layer);
    const int64_t k = shape->dim[shape->rank - 1];
    if (k % qn_dtype_get(dtype)->block_elems == 0) return dtype;
    return k % 32 == 0 ? QN_DTYPE_Q8_0 : QN_DTYPE_F16;
}

/* Walks what will be written, in file order; `visit` once for declaring, once for the data. */
typedef qn_status (*visit_fn)(qn_synth_job *job, const qn_tensor_row *row, const char *name, qn_dtype dtype,
                              const qn_shape *shape, qn_error *err);

static qn_status each_tensor(qn_synth_job *job, visit_fn visit, qn_error *err)
{
    for (int layer = -1; layer < (int)job->hp.n_layer; layer++) {
        for (int r = 0; r < job->arch->n_tensors; r++) {
            const qn_tensor_row *row = &job->arch->tensors[r];
            if (row->layer != (layer >= 0) || !written(job, row)) continue;
            char name[96];
            if (row->layer)
                snprintf(name, sizeof(name), row->name, layer);
            else
                snprintf(name, sizeof(name), "%s", row->name);
            const qn_shape shape = qn__tensor_row_shape(row, &job->hp);
            QN_TRY(visit(job, row, name, dtype_of(job, row, name, layer, &shape), &shape, err));
        }
    }
    return QN_OK;
}

static qn_status declare(qn_synth_job *job, const qn_tensor_row *row, const char *name, qn_dtype dtype,
                         const qn_shape *shape, qn_error *err)
{
    (void)row;
    qn_gguf_declare(job->w, name, dtype, shape);
    job->total += (uint64_t)qn_dtype_row_bytes(dtype, shape->dim[shape->rank - 1]) *
                  (uint64_t)(shape->rank == 2 ? shape->dim[0] : 1);
    return qn_gguf_writer_status(job->w, err);
}

/* A full disk and a user who had enough end it now, not after gigabytes. */
static qn_status put(qn_synth_job *job, const void *bytes, size_t n, qn_error *err)
{
    qn_gguf_write_data(job->w, bytes, n);
    QN_TRY(qn_gguf_writer_status(job->w, err));
    job->done += n;
    if (!job->progress || job->progress(job->progress_ctx, job->done, job->total)) return QN_OK;
    return QN_FAIL(err, cancelled, "cancelled after %llu of %llu bytes", (unsigned long long)job->done,
                   (unsigned long long)job->total);
}

static qn_status write_vector(qn_synth_job *job, const qn_tensor_row *row, int64_t n, qn_error *err)
{
    float *values = (float *)job->chunk;
    for (int64_t i = 0; i < n;) {
        int64_t k = 0;
        for (; k < CHUNK_BYTES / 4 && i < n; k++, i++) {
            const float noise = (float)(int32_t)(qn__synth_random(&job->state) >> 40) * (1.0f / 16777216.0f) - 0.5f;
            values[k] = (row->flags & W_ONES ? 1.0f : 0.0f) + 0.1f * noise;
        }
        QN_TRY(put(job, values, (size_t)k * sizeof(float), err));
    }
    return QN_OK;
}

static qn_status write_tensor(qn_synth_job *job, const qn_tensor_row *row, const char *name, qn_dtype dtype,
                              const qn_shape *shape, qn_error *err)
{
    (void)name;
    if (row->flags & W_VECTOR) return write_vector(job, row, shape->dim[0], err);
    /* One spread for all: 0.02 is what such models start their training from. */
    if (!job->pools[dtype])
        QN_TRY(qn__random_pool_create(dtype, 0.02f, qn__synth_random(&job->state), &job->pools[dtype], err));
    const size_t block = (size_t)qn_dtype_get(dtype)->block_bytes;
    uint64_t left = (uint64_t)qn_dtype_row_bytes(dtype, shape->dim[1]) * (uint64_t)shape->dim[0];
    while (left) {
        const uint64_t most = CHUNK_BYTES / block * block, now = left < most ? left : most;
        qn__random_pool_fill(job->pools[dtype], &job->state, job->chunk, (size_t)now);
        QN_TRY(put(job, job->chunk, (size_t)now, err));
        left -= now;
    }
    return QN_OK;
}

qn_status qn_synth(const char *path, const qn_synth_options *options, qn_progress_fn progress, void *ctx, qn_error *err)
{
    qn_synth_job job = {.progress = progress, .progress_ctx = ctx};
    qn__arena_init(&job.arena, 1 << 20);
    qn_status status = resolve(&job, options, err);
    if (status == QN_OK) {
        job.chunk = qn__alloc(CHUNK_BYTES);
        if (!job.chunk) status = QN_FAIL_NOMEM(err, CHUNK_BYTES);
    }
    if (status == QN_OK) status = qn_gguf_writer_create(path, &job.w, err);
    if (status == QN_OK) {
        write_metadata(&job, options);
        status = job.arena.failed ? QN_FAIL(err, nomem, "out of memory while making a vocabulary")
                                  : qn_gguf_writer_status(job.w, err);
        if (status == QN_OK) status = each_tensor(&job, declare, err);
        if (status == QN_OK) status = each_tensor(&job, write_tensor, err);
        /* Ending the file is what tells why a write failed. */
        const bool lost = qn_gguf_writer_status(job.w, NULL) != QN_OK;
        if (status == QN_OK || lost)
            status = qn_gguf_writer_commit(job.w, err);
        else
            qn_gguf_writer_abort(job.w);
    }
    for (int i = 0; i < QN_DTYPE_COUNT; i++) qn__random_pool_destroy(job.pools[i]);
    qn__free(job.chunk);
    qn_gguf_close(job.vocab);
    qn__arena_deinit(&job.arena);
    return status;
}
