/* SPDX-License-Identifier: MIT */
/* src/array/context.c -- contexts: what they own, errors, scopes. */
#include "array/array.h"
#include "array/autograd/tape.h"

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

static qn_status fill(qn_context *ctx, const qn_context_options *o, qn_error *err)
{
    QN_TRY(qn__check_passes_off(o->passes_off, err));
    const qn_backend_options each = {.n_threads = o->n_threads, .memory_limit = o->device_memory};
    QN_TRY(qn__backends_open(o->backend, &each, QN_MAX_PLACES, ctx->backends, &ctx->n_backends, err));
    ctx->strict = o->strict;
    const qn_sched_options options = {.cache_capacity = o->plan_cache > 0 ? o->plan_cache : PLAN_CACHE,
                                      .passes_off = o->passes_off,
                                      .strict = o->strict};
    QN_TRY(qn__sched_create(ctx->backends, ctx->n_backends, &options, &ctx->sched, err));
    QN_TRY(qn__graph_create(&ctx->graph, err));
    ctx->numbers = qn__calloc(QN_MAX_NUMBERS, QN_NUMBER_BYTES);
    if (ctx->numbers == NULL) return QN_FAIL_NOMEM(err, QN_MAX_NUMBERS * QN_NUMBER_BYTES);
    return qn__memory_get(ctx, 0, QN_MAX_NUMBERS * QN_NUMBER_BYTES, &ctx->number_memory[0], err);
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

static void end_scope(qn_scope *s)
{
    while (s->first != NULL) {
        s->first->refs = 1;
        qn_release(qn__handle_of(s->first));
    }
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
    (void)qn__memory_trim(ctx);
    for (int i = 0; i < ctx->n_backends; i++) ctx->backends[i]->type->close(ctx->backends[i]);
    qn__graph_destroy(ctx->graph);
    qn__free(ctx->leaves);
    qn__free(ctx->outputs);
    qn__free(ctx->output_memory);
    qn__free(ctx->numbers);
    qn__free(ctx->look.times.ns);
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
    if (ctx->ended) {
        (void)QN_FAIL(qn__err(ctx), state, "this context was destroyed");
        return;
    }
    /* a kept tensor may outlive, on the tape, the gradient of a leaf */
    for (qn_auto *a = ctx->tape_newest; a != NULL; a = a->older) {
        if (a->grad != NULL) qn_release(a->grad);
        a->grad = NULL;
    }
    for (qn_scope *s = ctx->scope; s != NULL; s = s->outer) end_scope(s);
    end_scope(&ctx->kept);
    forget_pending(ctx);
    for (int i = 0; i < ctx->n_backends; i++) {
        if (ctx->number_memory[i] != NULL) qn__memory_put(ctx, ctx->number_memory[i]);
    }
    (void)qn__memory_trim(ctx);
    qn__exports_end(ctx);
    ctx->ended = true;
    qn__context_let_go(ctx);
}

const qn_error *qn_context_error(const qn_context *ctx)
{
    static const qn_error none = {.status = QN_STATUS_invalid, .text = "there is no context: NULL was given"};
    return ctx != NULL ? &ctx->error : &none;
}

void qn_context_clear(qn_context *ctx)
{
    if (ctx != NULL) ctx->error = (qn_error){0};
}

void qn_context_trim(qn_context *ctx)
{
    if (ctx == NULL) return;
    qn__exports_collect(ctx);
    (void)qn__memory_trim(ctx);
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
    if (out == NULL) return;
    *out = (qn_context_info){0};
    if (ctx == NULL) return;
    *out = (qn_context_info){.activation_bytes = qn__sched_reserved_bytes(ctx->sched),
                             .n_tensors = ctx->n_tensors,
                             .n_storages = ctx->n_storages,
                             .n_pending = ctx->graph->n_nodes,
                             .n_runs = ctx->n_runs,
                             .n_fallbacks = ctx->n_fallbacks};
    for (int p = 0; p < ctx->n_backends; p++) {
        out->live_bytes += ctx->live_bytes[p];
        out->idle_bytes += ctx->idle_bytes[p];
    }
}

/* ---- scopes ---- */

static void unlink_slot(qn_slot *t)
{
    if (t->prev != NULL)
        t->prev->next = t->next;
    else
        t->scope->first = t->next;
    if (t->next != NULL) t->next->prev = t->prev;
}

static void link_slot(qn_scope *s, qn_slot *t)
{
    t->scope = s;
    t->prev = NULL;
    t->next = s->first;
    if (s->first != NULL) s->first->prev = t;
    s->first = t;
}

qn_status qn_scope_begin(qn_context *ctx)
{
    if (ctx == NULL) return QN_STATUS_invalid;
    if (ctx->ended) return QN_FAIL(qn__err(ctx), state, "this context was destroyed");
    qn_scope *s = qn__slab_get(ctx, &ctx->scope_slab);
    if (s == NULL) return QN_STATUS_nomem;
    *s = (qn_scope){.outer = ctx->scope};
    ctx->scope = s;
    return QN_OK;
}

qn_tensor *qn_scope_end(qn_context *ctx, qn_tensor *result)
{
    if (ctx == NULL) return NULL;
    qn_scope *s = ctx->scope;
    if (s == &ctx->outermost) {
        (void)QN_FAIL(qn__err(ctx), state, "scope_end: no scope is open");
        return result;
    }
    if (result != NULL && !LIVE(result)) result = NULL;
    if (result != NULL && of(result)->scope == s) {
        unlink_slot(of(result));
        link_slot(s->outer, of(result));
    }
    while (s->first != NULL) { /* a handle that somebody retained lives on in the scope around */
        qn_slot *t = s->first;
        if (t->refs > 1) {
            t->refs--;
            unlink_slot(t);
            link_slot(&ctx->kept, t);
        } else {
            qn_release(qn__handle_of(t));
        }
    }
    ctx->scope = s->outer;
    qn__slab_put(&ctx->scope_slab, s);
    return result;
}

qn_tensor *qn_keep(qn_tensor *t)
{
    if (!LIVE(t)) return NULL;
    unlink_slot(of(t));
    link_slot(&of(t)->ctx->kept, of(t));
    return t;
}

qn_tensor *qn_retain(qn_tensor *t)
{
    if (!LIVE(t)) return NULL;
    of(t)->refs++;
    return t;
}

void qn_release(qn_tensor *t)
{
    if (!LIVE(t) || --of(t)->refs > 0) return;
    qn_slot *s = of(t);
    qn_context *ctx = s->ctx;
    unlink_slot(s);
    if (s->grad_fn != NULL) qn__auto_unref(s->grad_fn);
    if (s->frozen != NULL) qn__auto_unref(s->frozen);
    qn__storage_drop_handle(s->storage);
    qn__storage_unref(s->storage);
    ctx->n_tensors--;
    s->use = 0;
    s->next = ctx->free_slots;
    if (s->used + 1 < UINT32_C(1) << QN_USE_BITS) ctx->free_slots = s;
}

/* ---- handles ---- */

/* Of a function, in messages. */
static const char *name_of(const char *call) { return strncmp(call, "qn_", 3) == 0 ? call + 3 : call; }

bool qn__stale(const qn_tensor *t, const char *call)
{
    (void)QN_FAIL(qn__err(of(t)->ctx), state,
                  "%s: this tensor is over: its handle was released, or the scope that it was made in has ended",
                  name_of(call));
    return false;
}

bool qn__given_at(qn_context *ctx, const void *p, const char *call, const char *what)
{
    if (p != NULL || ctx == NULL) return p != NULL;
    (void)QN_FAIL(qn__err(ctx), invalid, "%s: %s is NULL", name_of(call), what);
    return false;
}

static qn_slot *slot_new(qn_context *ctx)
{
    qn_slot *s = ctx->free_slots;
    if (ctx->ended) {
        (void)QN_FAIL(qn__err(ctx), state, "this context was destroyed");
        return NULL;
    }
    if (s != NULL) {
        ctx->free_slots = s->next;
        return s;
    }
    s = qn__arena_alloc_aligned(&ctx->objects, sizeof *s, QN_SLOT_ALIGN);
    ctx->objects.failed = false;
    if (s == NULL || ((uintptr_t)s & ~(uintptr_t)QN_SLOT_MASK) != 0) {
        (void)QN_FAIL_NOMEM(qn__err(ctx), sizeof *s);
        return NULL;
    }
    s->ctx = ctx;
    return s;
}

qn_tensor *qn__tensor_new(qn_context *ctx, qn_storage *s, const qn_layout *layout)
{
    if (s == NULL) return NULL;
    qn_slot *t = slot_new(ctx);
    if (t == NULL) {
        qn__storage_unref(s);
        return NULL;
    }
    t->use = ++t->used;
    t->storage = s;
    t->grad_fn = t->frozen = NULL;
    t->rebased = s->rebased;
    t->detached = false;
    s->n_handles++;
    t->refs = 1;
    t->epoch = 0;
    t->layout = *layout;
    link_slot(ctx->scope, t);
    ctx->n_tensors++;
    return qn__handle_of(t);
}

qn_tensor *qn__tensor_alias(const qn_tensor *t, const qn_layout *layout)
{
    qn_tensor *v = qn__tensor_new(of(t)->ctx, qn__storage_ref(of(t)->storage), layout);
    if (v != NULL) of(v)->detached = of(t)->detached;
    return v;
}
