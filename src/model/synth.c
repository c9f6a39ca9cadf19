/* SPDX-License-Identifier: MIT */
/* src/model/synth.c -- random-weight models in real models' shapes: an architecture's rows say what to write. Bounded
 * memory: one pool of packed numbers a type, and one megabyte on its way to the file. */
#include "model/synth.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (1 << 20)

typedef struct qn_synth_job {
    qn_gguf_writer *w;
    const qn_arch *arch;
    const qn_mix *mix;
    qn_hparams hp;
    bool tied, optional;
    float spread;
    qn_gguf *vocab;
    qn_arena arena;
    qn_random_pool *pools[QN_DTYPE_COUNT];
    uint64_t state, n_elems, done, total;
    uint8_t *chunk;
    qn_progress_fn progress;
    void *progress_ctx;
} qn_synth_job;

/* ---- what is asked for ---- */

/* Where options, presets and hyperparameters have a size; its range is that of the architecture's row. */
typedef struct size_row {
    const char *what;
    size_t option, preset, field;
} size_row;
#define SIZE(what, name, field) \
    { \
        what, offsetof(qn_synth_options, name), offsetof(qn_preset, name), offsetof(qn_hparams, field) \
    }
static const size_row sizes[] = {
    SIZE("number of layers (n_layer)", n_layer, n_layer),
    SIZE("embedding length (n_embd)", n_embd, n_embd),
    SIZE("number of heads (n_head)", n_head, n_head),
    SIZE("number of KV heads (n_kv_head)", n_kv_head, n_kv_head),
    SIZE("feed-forward length (n_ff)", n_ff, n_ff),
    SIZE("context length (n_ctx)", n_ctx, n_ctx_train),
    SIZE("head size (n_embd_head)", n_embd_head, n_embd_head_k),
};

static int32_t pick(int32_t asked, int32_t preset) { return asked ? asked : preset; }

static int32_t size_at(const void *base, size_t offset)
{
    int32_t value;
    memcpy(&value, (const char *)base + offset, sizeof(value));
    return value;
}

static qn_status need(const char *what, int64_t value, int64_t lo, int64_t hi, qn_error *err)
{
    if (value == 0) return QN_FAIL(err, invalid, "%s is not given and there is no preset to take it from", what);
    if (value < lo || value > hi)
        return QN_FAIL(err, invalid, "%s is %lld; %lld to %lld are possible", what, (long long)value, (long long)lo,
                       (long long)hi);
    return QN_OK;
}

static const qn_hparam_row *row_by_field(const qn_arch *arch, size_t field)
{
    for (int i = 0; i < arch->n_hparams; i++)
        if (arch->hparams[i].field == field) return &arch->hparams[i];
    return NULL;
}

static qn_status find_preset(const char *name, const qn_preset **out, qn_error *err)
{
    static const qn_preset none = {.arch = "llama", .n_ctx = 2048, .rope_base = 1e4f};
    *out = name ? qn__preset_find(name) : &none;
    if (*out) return QN_OK;
    char list[256] = "";
    for (const char *const *n = qn_synth_presets(); *n; n++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", *list ? ", " : "", *n);
    return QN_FAIL(err, invalid, "preset \"%s\" is not known; there are %s", name, list);
}

static qn_status resolve_vocab(qn_synth_job *job, const qn_synth_options *o, const qn_preset *p, qn_error *err)
{
    int64_t n_vocab = pick(o->n_vocab, p->n_vocab);
    if (o->vocab) {
        QN_TRY(qn_gguf_open(o->vocab, &(qn_gguf_options){.metadata_only = true}, &job->vocab, err));
        const qn_gguf_kv *kv = qn_gguf_kv_find(job->vocab, "tokenizer.ggml.tokens");
        if (!kv || kv->type != QN_GGUF_arr)
            return QN_FAIL(err, format, "%s: tokenizer.ggml.tokens is missing", o->vocab);
        n_vocab = (int64_t)kv->count;
    }
    QN_TRY(need("vocabulary (n_vocab)", n_vocab, 260, 1 << 24, err));
    job->hp.n_vocab = (uint32_t)n_vocab;
    return QN_OK;
}

static qn_status resolve_sizes(qn_synth_job *job, const qn_synth_options *o, const qn_preset *p, qn_error *err)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_row *s = &sizes[i];
        const qn_hparam_row *row = row_by_field(job->arch, s->field);
        if (!row) continue;
        int64_t value = pick(size_at(o, s->option), size_at(p, s->preset));
        const int64_t n_embd = job->hp.n_embd, n_head = job->hp.n_head;
        if (s->field == offsetof(qn_hparams, n_kv_head) && !value) value = n_head;
        if (s->field == offsetof(qn_hparams, n_embd_head_k)) {
            /* A preset's head belongs to its width; of another width it is a share again. */
            value = pick(o->n_embd_head, o->n_embd || o->n_head ? 0 : p->n_embd_head);
            if (!value && (!n_head || n_embd % n_head))
                return QN_FAIL(err, invalid, "embedding length %lld is not a multiple of %lld heads", (long long)n_embd,
                               (long long)n_head);
            if (!value) value = n_embd / n_head;
        }
        QN_TRY(need(s->what, value, (int64_t)row->lo, (int64_t)row->hi, err));
        qn__hparam_set(&job->hp, row, (double)value);
    }
    const qn_hparam_row *rot = row_by_field(job->arch, offsetof(qn_hparams, n_rot));
    job->hp.n_embd_head_v = job->hp.n_embd_head_k;
    if (!rot || !rot->required) job->hp.n_rot = job->hp.n_embd_head_k;
    job->hp.norm_eps = 1e-5f;
    job->hp.rope_base = o->rope_base > 0 ? o->rope_base : p->rope_base;
    return QN_OK;
}

static qn_status check_shape(const qn_hparams *hp, qn_error *err)
{
    if (hp->n_head % hp->n_kv_head || hp->n_embd_head_k % 2)
        return QN_FAIL(err, invalid, "%u heads of size %u over %u KV heads do not divide evenly", hp->n_head,
                       hp->n_embd_head_k, hp->n_kv_head);
    if (hp->n_rot > hp->n_embd_head_k || hp->n_rot % 2)
        return QN_FAIL(err, invalid, "RoPE turns %u of the %u elements of a head; an even number of them is possible",
                       hp->n_rot, hp->n_embd_head_k);
    return QN_OK;
}

static qn_status set_of_preset(qn_synth_job *job, const char *set, qn_error *err)
{
    char one[96];
    for (; *set; set += strspn(set, " ")) {
        const size_t n = strcspn(set, " ");
        snprintf(one, sizeof one, "%.*s", (int)n, set);
        QN_TRY(qn__hparam_parse(job->arch, one, &job->hp, err));
        set += n;
    }
    return QN_OK;
}

/* Of a slice the same share of layers reads others' keys, as far as there is one of each sight before them. */
static void slice_shared(qn_hparams *hp, uint32_t n_layer)
{
    const uint32_t own = hp->n_layer - (uint32_t)((uint64_t)hp->n_kv_shared * hp->n_layer / n_layer);
    const uint32_t least = own > hp->windowed ? own : hp->windowed;
    hp->n_kv_shared = least < hp->n_layer ? hp->n_layer - least : 0;
}

static qn_status resolve(qn_synth_job *job, const qn_synth_options *o, qn_error *err)
{
    const qn_preset *p;
    QN_TRY(find_preset(o->preset, &p, err));
    const char *arch = o->arch ? o->arch : p->arch;
    job->arch = qn__arch_find(arch);
    if (!job->arch) return QN_FAIL(err, unsupported, "architecture \"%s\" is not supported", arch);
    job->mix = qn__mix_find(o->type ? o->type : "F16", QN_MIX_any);
    if (!job->mix) return QN_FAIL(err, unsupported, "type \"%s\" is no mix and no type of weights", o->type);
    if (!(o->spread >= 0 && o->spread <= 1))
        return QN_FAIL(err, invalid, "spread is %g; 0 to 1 is possible", (double)o->spread);
    job->tied = o->tied || p->tied;
    job->optional = o->optional;
    job->spread = o->spread > 0 ? o->spread : 0.02f;
    job->state = o->seed + UINT64_C(0x51ed2701);
    QN_TRY(resolve_sizes(job, o, p, err));
    QN_TRY(resolve_vocab(job, o, p, err));
    if (p->set && strcmp(arch, p->arch) == 0) QN_TRY(set_of_preset(job, p->set, err));
    if (job->hp.n_kv_shared && job->hp.n_layer < (uint32_t)p->n_layer) slice_shared(&job->hp, (uint32_t)p->n_layer);
    for (const char *const *text = o->set; text && *text; text++)
        QN_TRY(qn__hparam_parse(job->arch, *text, &job->hp, err));
    qn__hparams_fill(&job->hp, job->arch);
    return check_shape(&job->hp, err);
}

/* ---- metadata ---- */

/* Every row that has been given; a field that is still 0 takes what a reader would take, and is not written. */
static void write_hparams(qn_synth_job *job)
{
    for (int i = 0; i < job->arch->n_hparams; i++) {
        const qn_hparam_row *row = &job->arch->hparams[i];
        const double value = qn__hparam_get(&job->hp, row);
        char key[128];
        qn__hparam_key(job->arch, row, key, sizeof(key));
        if (value == 0 && !row->required)
            qn__hparam_set(&job->hp, row, row->fallback);
        else
            qn__hparam_write(job->w, key, row, value);
    }
}

static void write_metadata(qn_synth_job *job, const qn_synth_options *o)
{
    char text[128];
    snprintf(text, sizeof(text), "synthetic %s", o->preset ? o->preset : job->arch->name);
    qn_gguf_write_str(job->w, "general.architecture", job->arch->name);
    qn_gguf_write_str(job->w, "general.name", text);
    qn_gguf_write_u32(job->w, "general.file_type", qn__mix_file_type(job->mix));
    qn_gguf_write_u32(job->w, "general.quantization_version", 2);
    write_hparams(job);
    snprintf(text, sizeof(text), "%s.vocab_size", job->arch->name);
    qn_gguf_write_u32(job->w, text, job->hp.n_vocab);
    if (job->vocab)
        qn_gguf_write_kvs(job->w, job->vocab, "tokenizer.");
    else
        qn__synth_vocab(job->w, (int32_t)job->hp.n_vocab, &job->arena);
}

/* ---- tensors ---- */

static bool written(const qn_synth_job *job, const qn_tensor_row *row)
{
    return !(row->flags & W_NO_SYNTH && !job->optional) && !(row->flags & W_TIED && job->tied);
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
            const qn_layer_hp hp = qn__layer_hp(&job->hp, layer < 0 ? 0 : (uint32_t)layer);
            if (!qn__tensor_row_in(row, &job->hp, &hp)) continue;
            const qn_shape shape = qn__tensor_row_shape(row, &job->hp, &hp);
            if (qn_shape_numel(&shape) == 0) continue; /* an option that was not given */
            QN_TRY(visit(job, row, name, dtype_of(job, row, name, layer, &shape), &shape, err));
        }
    }
    return QN_OK;
}

static uint64_t bytes_of(qn_dtype dtype, const qn_shape *shape)
{
    const int64_t row = shape->dim[shape->rank - 1];
    return (uint64_t)qn_dtype_row_bytes(dtype, row) * (uint64_t)(qn_shape_numel(shape) / row);
}

static qn_status declare(qn_synth_job *job, const qn_tensor_row *row, const char *name, qn_dtype dtype,
                         const qn_shape *shape, qn_error *err)
{
    (void)row;
    qn_gguf_declare(job->w, name, dtype, shape);
    job->n_elems += (uint64_t)qn_shape_numel(shape);
    job->total += bytes_of(dtype, shape);
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
    /* Norms keep the scale of what they scale; biases grow with the products that they are added to. */
    const float middle = row->flags & W_ONES ? 1.0f : 0.0f, width = row->flags & W_ONES ? 0.1f : 5.0f * job->spread;
    for (int64_t i = 0; i < n;) {
        int64_t k = 0;
        for (; k < CHUNK_BYTES / 4 && i < n; k++, i++) {
            const float noise = (float)(int32_t)(qn__synth_random(&job->state) >> 40) * (1.0f / 16777216.0f) - 0.5f;
            values[k] = middle + width * noise;
        }
        QN_TRY(put(job, values, (size_t)k * sizeof(float), err));
    }
    return QN_OK;
}

static qn_status write_tensor(qn_synth_job *job, const qn_tensor_row *row, const char *name, qn_dtype dtype,
                              const qn_shape *shape, qn_error *err)
{
    (void)name;
    if (row->flags & W_VECTOR) return write_vector(job, row, qn_shape_numel(shape), err);
    if (!job->pools[dtype])
        QN_TRY(qn__random_pool_create(dtype, job->spread, job->n_elems, qn__synth_random(&job->state),
                                      &job->pools[dtype], err));
    const size_t block = (size_t)qn_dtype_get(dtype)->block_bytes;
    uint64_t left = bytes_of(dtype, shape);
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
        /* Shapes are those of what a reader makes of the numbers; of layers the file has as many as it says. */
        const uint32_t n_layer = job.hp.n_layer;
        if (status == QN_OK) status = qn__hparams_settle(job.arch, &job.hp, err);
        job.hp.n_layer = n_layer;
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
