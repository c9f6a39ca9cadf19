/* SPDX-License-Identifier: MIT */
/* src/array/context.c -- contexts: what they own, errors, scopes. */
#include "array/array.h"
#include "array/autograd/tape.h"

#include <stdio.h>
#include <string.h>

enum { PLAN_CACHE = 64, MAX_PENDING = 16384 }; /* a training step of a deep network; 7 MiB of nodes */

/* ---- objects ---- */

void *qn__slab_get(qn_context *ctx, qn_slab *slab)
{
    void *p = slab->free;
    if (p != NULL) {
        slab->free = *(void **)p;
        return p;
    }
    p = qn__arena_alloc(&ctx->objects, slab->size);
    ctx->objects.failed = false;
    if (p == NULL) (void)QN_FAIL_NOMEM(qn__err(ctx), slab->size);
    return p;
}

void qn__slab_put(qn_slab *slab, void *object)
{
    *(void **)object = slab->free;
    slab->free = object;
}

/* ---- creation ---- */

static qn_status open_backend(const qn_context_options *o, qn_backend **out, qn_error *err)
{
    const char *spec = o->backend != NULL ? o->backend : "cpu", *colon = strchr(spec, ':');
    char name[32], quoted[64];
    qn_backend_options options = {.n_threads = o->n_threads};
    snprintf(name, sizeof name, "%.*s", colon != NULL ? (int)(colon - spec) : 31, spec);
    if (colon != NULL) {
        options.level_set = true;
        int level = 0;
        while (level < QN_CPU_LEVEL_COUNT && strcmp(qn_cpu_level_name((qn_cpu_level)level), colon + 1) != 0) level++;
        if (level == QN_CPU_LEVEL_COUNT) {
            return QN_FAIL(err, invalid, "backend \"%s\": there is no such level",
                           qn__str_quote(quoted, sizeof quoted, spec, strlen(spec)));
        }
        options.level = (qn_cpu_level)level;
    }
    const qn_backend_type *type = qn__backend_find(name);
    if (type == NULL) {
        return QN_FAIL(err, unsupported, "backend \"%s\" is not known",
                       qn__str_quote(quoted, sizeof quoted, spec, strlen(spec)));
    }
    return type->open(&options, out, err);
}

static qn_status fill(qn_context *ctx, const qn_context_options *o, qn_error *err)
{
    QN_TRY(open_backend(o, &ctx->backend, err));
    const qn_sched_options options = {.cache_capacity = o->plan_cache > 0 ? o->plan_cache : PLAN_CACHE};
    QN_TRY(qn__sched_create(&ctx->backend, 1, &options, &ctx->sched, err));
    QN_TRY(qn__graph_create(&ctx->graph, err));
    ctx->numbers = qn__calloc(QN_MAX_NUMBERS, QN_NUMBER_BYTES);
    if (ctx->numbers == NULL) return QN_FAIL_NOMEM(err, QN_MAX_NUMBERS * QN_NUMBER_BYTES);
    return qn__memory_get(ctx, 0, QN_MAX_NUMBERS * QN_NUMBER_BYTES, &ctx->number_memory, err);
}

qn_status qn_context_create(const qn_context_options *options, qn_context **out, qn_error *err)
{
    static const qn_context_options defaults;
    const qn_context_options *o = options != NULL ? options : &defaults;
    if (o->max_pending < 0 || o->max_pending > 1 << 22)
        return QN_FAIL(err, invalid, "max_pending is %d", o->max_pending);
    qn_context *ctx = qn__calloc(1, sizeof *ctx);
    if (ctx == NULL) return QN_FAIL_NOMEM(err, sizeof *ctx);
    qn__arena_init(&ctx->objects, 64 * 1024);
    ctx->tensors.size = sizeof(qn_tensor);
    ctx->storages.size = sizeof(qn_storage);
    ctx->autos.size = sizeof(qn_auto);
    ctx->memories.size = sizeof(qn_memory);
    ctx->scope_slab.size = sizeof(qn_scope);
    static _Atomic uint32_t n_made;
    ctx->serial = 1 + atomic_fetch_add_explicit(&n_made, 1, memory_order_relaxed);
    ctx->scope = &ctx->outermost;
    atomic_init(&ctx->holders, 1);
    atomic_init(&ctx->collecting, 1);
    ctx->epoch = 1;
    ctx->latest = &ctx->error;
    ctx->max_pending = o->max_pending > 0 ? o->max_pending : MAX_PENDING;
    const qn_status status = fill(ctx, o, err);
    if (status != QN_OK) {
        qn_context_destroy(ctx);
        return status;
    }
    *out = ctx;
    return QN_OK;
}

static void end_handle(qn_tensor *t)
{
    t->refs = 1;
    qn_release(t);
}

static void end_scope(qn_context *ctx, qn_scope *s)
{
    while (s->first != NULL) end_handle(s->first);
    (void)ctx;
}

static void forget_pending(qn_context *ctx)
{
    while (ctx->pending != NULL) {
        ctx->pending->value = NULL;
        qn__storage_unlist(ctx->pending);
    }
    for (int32_t i = 0; i < ctx->n_leaves; i++) {
        qn_storage *s = ctx->leaves[i].storage;
        if (s == NULL) continue;
        s->leaf = NULL;
        qn__storage_unref(s);
    }
    ctx->n_leaves = 0;
}

/* After the last holder nothing is alive but idle memory. */
static void finish(qn_context *ctx)
{
    qn__sched_destroy(ctx->sched);
    if (ctx->backend != NULL) {
        qn__memory_trim(ctx, 0);
        ctx->backend->type->close(ctx->backend);
    }
    qn__graph_destroy(ctx->graph);
    qn__free(ctx->leaves);
    qn__free(ctx->outputs);
    qn__free(ctx->output_memory);
    qn__free(ctx->numbers);
    qn__arena_deinit(&ctx->objects);
    qn__free(ctx);
}

void qn__context_let_go(qn_context *ctx)
{
    if (atomic_fetch_sub_explicit(&ctx->holders, 1, memory_order_acq_rel) == 1) finish(ctx);
}

void qn_context_destroy(qn_context *ctx)
{
    if (ctx == NULL) return;
    /* a kept tensor may outlive, on the tape, the gradient of a leaf */
    for (qn_auto *a = ctx->tape_newest; a != NULL; a = a->older) {
        if (a->grad != NULL) qn_release(a->grad);
        a->grad = NULL;
    }
    for (qn_scope *s = ctx->scope; s != NULL; s = s->outer) end_scope(ctx, s);
    end_scope(ctx, &ctx->kept);
    forget_pending(ctx);
    if (ctx->number_memory != NULL) qn__memory_put(ctx, ctx->number_memory);
    if (ctx->backend != NULL) qn__memory_trim(ctx, 0);
    qn__exports_end(ctx);
    qn__context_let_go(ctx);
}

const qn_error *qn_context_error(const qn_context *ctx) { return &ctx->error; }
const char *qn_context_backend(const qn_context *ctx) { return ctx->backend->name; }
void qn_context_clear(qn_context *ctx) { ctx->error = (qn_error){0}; }

void qn_context_trim(qn_context *ctx)
{
    qn__exports_collect(ctx);
    qn__memory_trim(ctx, 0);
}

qn_status qn_context_fail(qn_context *ctx, qn_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)qn__vfail(qn__err(ctx), status, __FILE__, __LINE__, fmt, args);
    va_end(args);
    return status;
}

void qn_context_get_info(const qn_context *ctx, qn_context_info *out)
{
    *out = (qn_context_info){.live_bytes = ctx->live_bytes,
                             .idle_bytes = ctx->idle_bytes,
                             .n_tensors = ctx->n_tensors,
                             .n_storages = ctx->n_storages,
                             .n_pending = ctx->graph->n_nodes,
                             .n_runs = ctx->n_runs};
}

/* ---- scopes ---- */

static void unlink_handle(qn_tensor *t)
{
    qn_scope *s = t->scope;
    if (t->prev != NULL)
        t->prev->next = t->next;
    else
        s->first = t->next;
    if (t->next != NULL) t->next->prev = t->prev;
}

static void link_handle(qn_scope *s, qn_tensor *t)
{
    t->scope = s;
    t->prev = NULL;
    t->next = s->first;
    if (s->first != NULL) s->first->prev = t;
    s->first = t;
}

qn_status qn_scope_begin(qn_context *ctx)
{
    qn_scope *s = qn__slab_get(ctx, &ctx->scope_slab);
    if (s == NULL) return QN_STATUS_nomem;
    *s = (qn_scope){.outer = ctx->scope};
    ctx->scope = s;
    return QN_OK;
}

qn_tensor *qn_scope_end(qn_context *ctx, qn_tensor *result)
{
    qn_scope *s = ctx->scope;
    if (s == &ctx->outermost) {
        (void)QN_FAIL(qn__err(ctx), state, "scope_end: no scope is open");
        return result;
    }
    if (result != NULL && result->scope == s) {
        unlink_handle(result);
        link_handle(s->outer, result);
    }
    while (s->first != NULL) { /* a handle that somebody retained lives on in the scope around */
        qn_tensor *t = s->first;
        if (t->refs > 1) {
            t->refs--;
            unlink_handle(t);
            link_handle(&ctx->kept, t);
        } else {
            qn_release(t);
        }
    }
    ctx->scope = s->outer;
    qn__slab_put(&ctx->scope_slab, s);
    return result;
}

qn_tensor *qn_keep(qn_tensor *t)
{
    if (t == NULL) return NULL;
    unlink_handle(t);
    link_handle(&t->ctx->kept, t);
    return t;
}

qn_tensor *qn_retain(qn_tensor *t)
{
    if (t != NULL) t->refs++;
    return t;
}

void qn_release(qn_tensor *t)
{
    if (t == NULL || --t->refs > 0) return;
    qn_context *ctx = t->ctx;
    unlink_handle(t);
    if (t->grad_fn != NULL) qn__auto_unref(t->grad_fn);
    qn__storage_drop_handle(t->storage);
    qn__storage_unref(t->storage);
    ctx->n_tensors--;
    qn__slab_put(&ctx->tensors, t);
}

/* ---- handles ---- */

qn_tensor *qn__tensor_new(qn_context *ctx, qn_storage *s, const qn_layout *layout)
{
    if (s == NULL) return NULL;
    qn_tensor *t = qn__slab_get(ctx, &ctx->tensors);
    if (t == NULL) {
        qn__storage_unref(s);
        return NULL;
    }
    t->ctx = ctx;
    t->storage = s;
    t->grad_fn = NULL;
    t->rebased = s->rebased;
    t->detached = false;
    s->n_handles++;
    t->refs = 1;
    t->epoch = 0;
    t->layout = *layout;
    link_handle(ctx->scope, t);
    ctx->n_tensors++;
    return t;
}

qn_tensor *qn__tensor_alias(const qn_tensor *t, const qn_layout *layout)
{
    qn_tensor *v = qn__tensor_new(t->ctx, qn__storage_ref(t->storage), layout);
    if (v != NULL) v->detached = t->detached;
    return v;
}
