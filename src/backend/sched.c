/* SPDX-License-Identifier: MIT */
/* src/backend/sched.c -- the scheduler as an object: its backends, buffers and compiled graphs. */
#include "backend/internal.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"

enum { CACHE_CAPACITY = 32 };

static qn_status check_backends(qn_backend *const *backends, int n, qn_error *err)
{
    if (n < 1 || n > QN_MAX_PLACES) return QN_FAIL(err, invalid, "%d backends, 1 to %d expected", n, QN_MAX_PLACES);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(backends[i]->name, backends[j]->name))
                return QN_FAIL(err, invalid, "backends %d and %d are both named \"%s\"", j, i, backends[i]->name);
    return QN_OK;
}

qn_status qn__sched_create(qn_backend *const *backends, int n_backends, const qn_sched_options *options, qn_sched **out,
                           qn_error *err)
{
    QN_TRY(check_backends(backends, n_backends, err));
    qn_sched *s = qn__calloc(1, sizeof(*s));
    if (!s) return QN_FAIL_NOMEM(err, sizeof(*s));
    if (options) s->options = *options;
    s->n_backends = n_backends;
    s->align = 1;
    for (int i = 0; i < n_backends; i++) {
        s->backends[i] = backends[i];
        if (backends[i]->alignment > s->align) s->align = backends[i]->alignment;
    }
    const int capacity = s->options.cache_capacity > 0 ? s->options.cache_capacity : CACHE_CAPACITY;
    const qn_status status = qn__cache_create(capacity, qn__exec_destroy, &s->cache, err);
    if (status != QN_OK) {
        qn__free(s);
        return status;
    }
    QN_COUNT(sched_created, 1);
    *out = s;
    return QN_OK;
}

void qn__sched_destroy(qn_sched *s)
{
    if (!s) return;
    for (int p = 0; p < s->n_backends; p++) (void)qn__backend_sync(s->backends[p], NULL);
    qn__cache_destroy(s->cache);
    qn__exec_destroy(s->loose);
    for (int p = 0; p < s->n_backends; p++) qn__activations_release(s->activations[p]);
    qn__free(s->staging);
    qn__free(s);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static qn_status grow_activations(qn_sched *s, int place, uint64_t bytes, qn_error *err)
{
    qn_activations *old = s->activations[place];
    if (bytes == 0) bytes = s->align; /* so that there is an address */
    if (old && old->buffer->bytes >= bytes) return QN_OK;
    qn_activations *a = qn__calloc(1, sizeof(*a));
    if (!a) return QN_FAIL_NOMEM(err, sizeof(*a));
    qn_backend *be = s->backends[place];
    const qn_status status = be->type->buffer_create(be, bytes, &a->buffer, err);
    if (status != QN_OK) {
        qn__free(a);
        return qn__prefix(err, status, "activations of %s", be->name);
    }
    a->users = 1;
    s->activations[place] = a;
    qn__activations_release(old);
    return QN_OK;
}

/* The largest transfer between two memories that the host can't reach. */
static qn_status grow_staging(qn_sched *s, const qn_exec *e, qn_error *err)
{
    uint64_t need = 0;
    for (int32_t i = 0; i < e->n_steps; i++) {
        const qn_node *t = e->steps[i].transfer;
        if (!t) continue;
        const qn_node *root = t->src[0]->root;
        const qn_buffer *from = root->buffer ? root->buffer : s->activations[root->place]->buffer;
        const uint64_t bytes = (uint64_t)qn__node_bytes(t);
        if (!from->host && !s->activations[t->place]->buffer->host && bytes > need) need = bytes;
    }
    if (need <= s->staging_bytes) return QN_OK;
    uint8_t *staging = qn__alloc((size_t)need);
    if (!staging) return QN_FAIL_NOMEM(err, need);
    qn__free(s->staging);
    s->staging = staging;
    s->staging_bytes = need;
    return QN_OK;
}

static bool has_nodes(const qn_exec *e, int place)
{
    for (int32_t i = 0; i < e->graph->n_nodes; i++)
        if (e->graph->nodes[i]->place == place) return true;
    return false;
}

static qn_status grow_buffers(qn_sched *s, const qn_exec *e, qn_error *err)
{
    for (int p = 0; p < s->n_backends; p++) {
        qn_error why = {0};
        const qn_status status = grow_activations(s, p, e->plan.bytes[p], &why);
        if (status == QN_STATUS_lost && e->plan.bytes[p] == 0 && !has_nodes(e, p)) continue; /* nobody computes there */
        if (status != QN_OK && err) *err = why;
        if (status != QN_OK) return status;
    }
    return grow_staging(s, e, err);
}

uint64_t qn__sched_reserved_bytes(const qn_sched *s)
{
    uint64_t bytes = s->staging_bytes;
    for (int p = 0; p < s->n_backends; p++)
        if (s->activations[p]) bytes += s->activations[p]->buffer->bytes;
    return bytes;
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* The graph is the exec's from here on, or gone. */
static qn_status exec_create(qn_sched *s, qn_graph *graph, qn_admit_fn admit, void *ctx, qn_exec **out, qn_error *err)
{
    qn_exec *e = qn__calloc(1, sizeof(*e));
    if (!e) {
        qn__graph_destroy(graph);
        return QN_FAIL_NOMEM(err, sizeof(*e));
    }
    e->sched = s;
    e->graph = graph;
    qn_status status = qn__exec_prepare(s, e, false, err);
    if (status == QN_OK && admit) status = admit(ctx, &e->plan, err);
    if (status == QN_OK) status = qn__exec_store_constants(e, err);
    if (status == QN_OK) status = grow_buffers(s, e, err);
    if (status != QN_OK) {
        qn__exec_destroy(e);
        return status;
    }
    *out = e;
    return QN_OK;
}

qn_exec *qn__sched_find(qn_sched *s, const void *key, size_t key_bytes)
{
    if (s->options.no_cache) {
        QN_COUNT(plan_cache_misses, 1);
        return NULL;
    }
    qn_exec *e = qn__cache_find(s->cache, key, key_bytes);
    if (e && qn__exec_is_stale(e)) qn__exec_refresh(e);
    return e;
}

qn_status qn__sched_compile(qn_sched *s, qn_graph *graph, const void *key, size_t key_bytes, qn_exec **out,
                            qn_error *err)
{
    qn_exec *e = NULL;
    const int64_t start = qn__now_ns();
    const uint64_t began = qn__trace_begin();
    QN_TRY(exec_create(s, graph, NULL, NULL, &e, err));
    const qn_status status = qn__exec_compile(e, err);
    qn__trace_end(QN_TRACE_compile, began);
    QN_OBSERVE(compile, qn__now_ns() - start);
    if (status != QN_OK) {
        qn__exec_destroy(e);
        return status;
    }
    if (s->options.no_cache || key_bytes == 0) {
        qn__exec_destroy(s->loose);
        s->loose = e;
    } else {
        QN_TRY(qn__cache_put(s->cache, key, key_bytes, e, err));
    }
    *out = e;
    return QN_OK;
}

qn_status qn__sched_reserve(qn_sched *s, qn_graph *graph, qn_admit_fn admit, void *ctx, qn_error *err)
{
    qn_exec *e = NULL;
    QN_TRY(exec_create(s, graph, admit, ctx, &e, err));
    qn__exec_destroy(e);
    return QN_OK;
}

qn_status qn__sched_dry_run(qn_sched *s, qn_graph *graph, qn_plan *plan, qn_pass_report *passes, qn_str *text,
                            qn_error *err)
{
    qn_exec e = {.sched = s, .graph = graph};
    QN_TRY(qn__exec_prepare(s, &e, true, err));
    if (plan) *plan = e.plan;
    if (passes) *passes = e.passes;
    return text ? qn__exec_print_plan(&e, text, err) : QN_OK;
}
