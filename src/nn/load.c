/* SPDX-License-Identifier: MIT */
/* src/nn/load.c -- parameters and buffers from a file, or from another module. First everything is looked at and made,
 * then, when nothing can fail any more, tensors become what was made: a module is never half loaded. */
#include "nn/module.h"
#include "nn/stored.h"

#include <string.h>

typedef struct load_job {
    qn_module *m;
    qn_listing list;
    /* what each listed tensor becomes; NULL: stays. Of a shared one only where it is listed first */
    qn_tensor **made;
    const qn_load_options *options;
    qn_stored_file file;
    qn_listing from; /* of the module that is loaded from, instead of a file */
    bool lenient;
    int64_t n_missing, n_unexpected;
    char missing[64], unexpected[64]; /* the first of them, for the message */
} load_job;

static void note(load_job *job, qn_load_note what, const char *path)
{
    const bool missing = what == QN_LOAD_missing;
    int64_t *n = missing ? &job->n_missing : &job->n_unexpected;
    if ((*n)++ == 0) qn__str_quote(missing ? job->missing : job->unexpected, sizeof job->missing, path, strlen(path));
    if (job->options != NULL && job->options->note != NULL) job->options->note(job->options->arg, what, path);
}

static qn_status verdict(const load_job *job, qn_error *err)
{
    if (job->lenient || (job->n_missing == 0 && job->n_unexpected == 0)) return QN_OK;
    if (job->n_unexpected == 0)
        return QN_FAIL(err, invalid, "%lld missing (the first is \"%s\")", (long long)job->n_missing, job->missing);
    if (job->n_missing == 0) {
        return QN_FAIL(err, invalid, "%lld not in the module (the first is \"%s\")", (long long)job->n_unexpected,
                       job->unexpected);
    }
    return QN_FAIL(err, invalid, "%lld missing (the first is \"%s\"), %lld not in the module (the first is \"%s\")",
                   (long long)job->n_missing, job->missing, (long long)job->n_unexpected, job->unexpected);
}

/* A scalar may come as one element: GGUF has no other way. */
static bool same_shape(const qn_tensor *t, const qn_shape *shape)
{
    const qn_shape have = qn_shape_get(t), one = qn_shape_of(1);
    return qn_shape_equal(&have, shape) || (have.rank == 0 && qn_shape_equal(shape, &one));
}

/* The dtype that t shall have when the file has `stored`. */
static qn_status target_dtype(const load_job *job, const char *path, const qn_tensor *t, qn_dtype stored,
                              const qn_shape *shape, qn_dtype *out, qn_error *err)
{
    const qn_dtype have = qn_dtype_of(t);
    const qn_dtype_class from = qn_dtype_get(stored)->class_, to = qn_dtype_get(have)->class_;
    char a[192], b[192];
    const qn_shape own = qn_shape_get(t);
    if (!same_shape(t, shape)) {
        return QN_FAIL(err, invalid, "tensor %s: %s, %s expected", path, qn_shape_print(shape, a, sizeof a),
                       qn_shape_print(&own, b, sizeof b));
    }
    const bool as_stored = job->options != NULL && job->options->as_stored;
    *out = as_stored ? stored : have;
    const bool unpacks = from == QN_CLASS_real || from == QN_CLASS_block,
               floats = to == QN_CLASS_real || to == QN_CLASS_block;
    if (stored == have || (unpacks && floats && (as_stored || to == QN_CLASS_real))) return QN_OK;
    return QN_FAIL(err, invalid, "tensor %s: %s, %s expected", path, qn_dtype_get(stored)->name,
                   qn_dtype_get(have)->name);
}

/* ---- values from a file ---- */

static qn_status place_of(const load_job *job, const char *path, const qn_stored *s, const qn_tensor *t, int *out,
                          qn_error *err)
{
    *out = qn__place_of(t);
    if (job->options == NULL || job->options->place == NULL) return QN_OK;
    const char *name =
        job->options->place(job->options->arg, path, &(qn_tensor_info){s->dtype, s->shape, s->size_bytes});
    if (name == NULL) return QN_OK;
    *out = qn__place_find(job->m->ctx, "place", name, err);
    return *out >= 0 ? QN_OK : qn__prefix(err, QN_STATUS_invalid, "tensor %s", path);
}

/* Blocks unpacked to F32, as a tensor. */
static qn_tensor *unpacked(qn_context *ctx, int place, const qn_stored *s, const void *data)
{
    const int64_t n = qn_shape_numel(&s->shape);
    float *values = qn__alloc(((size_t)n + 1) * sizeof *values);
    if (values == NULL) return (void)QN_FAIL_NOMEM(qn__err(ctx), ((size_t)n + 1) * sizeof *values), NULL;
    const bool good = n == 0 || qn_unpack(s->dtype, data, values, n, qn__err(ctx)) == QN_OK;
    qn_tensor *t = good ? qn__from_data_at(ctx, place, values, s->shape, QN_DTYPE_F32) : NULL;
    qn__free(values);
    return t;
}

/* The stored tensor as a leaf that can take the place of t. */
static qn_tensor *leaf_of(const load_job *job, const qn_tensor *t, int place, const qn_stored *s, const void *data,
                          qn_dtype dtype)
{
    qn_context *ctx = job->m->ctx;
    const bool block = qn_dtype_get(s->dtype)->class_ == QN_CLASS_block;
    qn_tensor *raw = block && dtype != s->dtype ? unpacked(ctx, place, s, data)
                                                : qn__from_data_at(ctx, place, data, s->shape, s->dtype);
    qn_tensor *as = raw != NULL ? qn_to(raw, dtype) : NULL,
              *y = as != NULL && qn_rank(t) != qn_rank(as) ? qn_reshape(as, QN_SCALAR) : qn_retain(as);
    qn_release(raw);
    qn_release(as);
    if (y == NULL || !qn_requires_grad(t) || !qn__is_real(dtype) || qn_requires_grad_(y, true) != NULL) return y;
    qn_release(y);
    return NULL;
}

static qn_status take_stored(load_job *job, int64_t i, const qn_stored *s, qn_error *err)
{
    const qn_listed *item = &job->list.items[i];
    qn_tensor *t = item->slot->tensor;
    qn_context *ctx = job->m->ctx;
    qn_dtype dtype;
    void *copy = NULL;
    int place;
    QN_TRY(target_dtype(job, item->path, t, s->dtype, &s->shape, &dtype, err));
    QN_TRY(place_of(job, item->path, s, t, &place, err));
    if (s->data == NULL && s->size_bytes > 0) {
        copy = s->size_bytes < SIZE_MAX ? qn__alloc((size_t)s->size_bytes) : NULL;
        if (copy == NULL) return QN_FAIL_NOMEM(err, s->size_bytes);
        const qn_status status = qn__stored_read(&job->file, s, copy, err);
        if (status != QN_OK) {
            qn__free(copy);
            return status;
        }
    }
    qn_tensor *y = leaf_of(job, t, place, s, copy != NULL ? copy : s->data, dtype);
    qn__free(copy);
    if (y == NULL) {
        if (err != NULL) *err = *ctx->latest;
        return qn__prefix(err, qn__status(ctx), "tensor %s", item->path);
    }
    qn_release(job->made[item->first]);
    job->made[item->first] = y;
    return QN_OK;
}

static const char *name_in_file(const load_job *job, const char *path, char text[512])
{
    const qn_load_options *o = job->options;
    return o != NULL && o->name_in_file != NULL ? o->name_in_file(o->arg, path, text, 512) : path;
}

static qn_status match_file(load_job *job, qn_error *err)
{
    char text[512];
    const size_t n = qn__stored_count(&job->file);
    const char **used = qn__calloc((size_t)job->list.n + 1, sizeof *used);
    if (used == NULL) return QN_FAIL_NOMEM(err, (size_t)job->list.n * sizeof *used);
    qn_status status = QN_OK;
    for (int64_t i = 0; status == QN_OK && i < job->list.n; i++) {
        qn_stored s;
        const char *name = name_in_file(job, job->list.items[i].path, text);
        if (name == NULL || !qn__stored_find(&job->file, name, &s)) continue;
        used[i] = s.name;
        status = take_stored(job, i, &s, err);
    }
    for (int64_t i = 0; status == QN_OK && i < job->list.n; i++) {
        if (job->list.items[i].first == i && job->made[i] == NULL) note(job, QN_LOAD_missing, job->list.items[i].path);
    }
    for (size_t k = 0; status == QN_OK && k < n; k++) {
        qn_stored s;
        qn__stored_get(&job->file, k, &s);
        int64_t i = 0;
        while (i < job->list.n && used[i] != s.name) i++;
        if (i == job->list.n) note(job, QN_LOAD_unexpected, s.name);
    }
    qn__free(used);
    return status == QN_OK ? verdict(job, err) : status;
}

/* ---- values from a module ---- */

static qn_status take_tensor(load_job *job, int64_t i, qn_tensor *values, qn_error *err)
{
    const qn_listed *item = &job->list.items[i];
    qn_tensor *t = item->slot->tensor;
    qn_context *ctx = job->m->ctx;
    const qn_shape shape = qn_shape_get(values);
    qn_dtype dtype;
    QN_TRY(target_dtype(job, item->path, t, qn_dtype_of(values), &shape, &dtype, err));
    qn_tensor *plain = qn_detach(values), *here = qn_to_context(plain, ctx);
    if (here == NULL) { /* the other context may be another one */
        if (err != NULL) *err = *of(values)->ctx->latest;
        qn_release(plain);
        return qn__prefix(err, qn__status(of(values)->ctx), "tensor %s", item->path);
    }
    qn_tensor *y = dtype != qn_dtype_of(here) ? qn_to(here, dtype)
                   : of(values)->ctx == ctx   ? qn_clone(here)
                                              : qn_retain(here);
    if (y != NULL && qn__place_of(y) != qn__place_of(t)) { /* as the parameter lies */
        qn_tensor *there = qn__to_place(y, qn__place_of(t));
        qn_release(y);
        y = there;
    }
    qn_release(here);
    qn_release(plain);
    if (y != NULL && qn_requires_grad(t) && qn_requires_grad_(y, true) == NULL) {
        qn_release(y);
        y = NULL;
    }
    if (y == NULL) {
        if (err != NULL) *err = *ctx->latest;
        return qn__prefix(err, qn__status(ctx), "tensor %s", item->path);
    }
    qn_release(job->made[item->first]);
    job->made[item->first] = y;
    return QN_OK;
}

static int64_t index_of(const qn_listing *l, const char *path)
{
    int64_t i = 0;
    while (i < l->n && strcmp(l->items[i].path, path) != 0) i++;
    return i;
}

static qn_status match_module(load_job *job, qn_error *err)
{
    for (int64_t i = 0; i < job->list.n; i++) {
        const int64_t k = index_of(&job->from, job->list.items[i].path);
        if (k < job->from.n) QN_TRY(take_tensor(job, i, job->from.items[k].slot->tensor, err));
    }
    for (int64_t i = 0; i < job->list.n; i++) {
        if (job->list.items[i].first == i && job->made[i] == NULL) note(job, QN_LOAD_missing, job->list.items[i].path);
    }
    for (int64_t k = 0; k < job->from.n; k++) {
        if (index_of(&job->list, job->from.items[k].path) == job->list.n)
            note(job, QN_LOAD_unexpected, job->from.items[k].path);
    }
    return verdict(job, err);
}

/* ---- both ---- */

static qn_status prepare(load_job *job, qn_error *err)
{
    QN_TRY(qn__listing_init(job->m, &job->list, err));
    job->made = qn__calloc((size_t)job->list.n + 1, sizeof *job->made);
    return job->made != NULL ? QN_OK : QN_FAIL_NOMEM(err, ((size_t)job->list.n + 1) * sizeof *job->made);
}

/* Nothing fails here. */
static void finish(load_job *job, bool good)
{
    for (int64_t i = 0; job->made != NULL && i < job->list.n; i++) {
        if (good && job->made[i] != NULL) (void)qn_become(job->list.items[i].slot->tensor, job->made[i]);
        qn_release(job->made[i]);
    }
    qn__free(job->made);
    qn__listing_deinit(&job->list);
}

qn_status qn_module_load(qn_module *m, const char *path, const qn_load_options *options, qn_error *err)
{
    if (m == NULL || path == NULL) return QN_FAIL(err, invalid, "load: there is no %s", m == NULL ? "module" : "path");
    load_job job = {.m = m, .options = options, .lenient = options != NULL && options->lenient};
    const qn_error was = qn__begin_errors(m->ctx);
    qn__arena_init(&job.list.arena, 0);
    qn_status status = qn__stored_open(path, &job.file, err);
    if (status == QN_OK) {
        char quoted[192];
        status = prepare(&job, err);
        if (status == QN_OK) status = match_file(&job, err);
        if (status != QN_OK)
            (void)qn__prefix(err, status, "%s", qn__str_quote(quoted, sizeof quoted, path, strlen(path)));
    }
    finish(&job, status == QN_OK);
    qn__stored_close(&job.file);
    m->ctx->error = was;
    return status;
}

qn_status qn_module_load_from(qn_module *m, qn_module *from, bool lenient, qn_error *err)
{
    if (m == NULL || from == NULL) return QN_FAIL(err, invalid, "load_from: there is no module");
    load_job job = {.m = m, .lenient = lenient};
    const qn_error was = qn__begin_errors(m->ctx),
                   others = from->ctx != m->ctx ? qn__begin_errors(from->ctx) : (qn_error){0};
    qn__arena_init(&job.list.arena, 0);
    qn__arena_init(&job.from.arena, 0);
    qn_status status = qn__listing_init(from, &job.from, err);
    if (status == QN_OK) status = prepare(&job, err);
    if (status == QN_OK) status = match_module(&job, err);
    finish(&job, status == QN_OK);
    qn__listing_deinit(&job.from);
    if (from->ctx != m->ctx) from->ctx->error = others;
    m->ctx->error = was;
    return status;
}
