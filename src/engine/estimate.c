/* SPDX-License-Identifier: MIT */
/* src/engine/estimate.c -- what a session takes, to the byte, and whether there is that much: asked before anything is
 * allocated. */
#include "base/log.h"
#include "base/machine.h"
#include "base/str.h"
#include "base/metrics.h"
#include "engine/pager.h"
#include <stdio.h>

void qn__stand_in(const qn_engine *e, const qn_kv_layout *layout, qn_kv_desc *kv, qn_stand_in *out)
{
    qn_buffer *kv_buffers[QN_MAX_PLACES], *list_buffers[QN_MAX_PLACES];
    for (int p = 0; p < e->n_backends; p++) {
        out->buffer[2 * p] = out->buffer[2 * p + 1] = (qn_buffer){.backend = e->backends[p], .bytes = UINT64_MAX};
        kv_buffers[p] = &out->buffer[2 * p];
        list_buffers[p] = &out->buffer[2 * p + 1];
    }
    qn__kv_layout_bind(layout, kv, e->model->hp.n_layer, kv_buffers, list_buffers);
}

qn_status qn__worst_graph(const qn_engine *e, const qn_session_shape *shape, const qn_kv_desc *kv, qn_graph **out,
                          qn_error *err)
{
    const int32_t n_out = shape->n_logits < shape->n_batch ? shape->n_logits : shape->n_batch;
    const qn_decode_spec spec = qn__decode_spec(e, shape, shape->n_batch, n_out);
    return qn__build_decode(e->model, kv, &spec, out, err);
}

void qn__plan_cover(qn_plan *plan, const qn_plan *other)
{
    for (int p = 0; p < other->n_places; p++)
        if (other->bytes[p] > plan->bytes[p]) plan->bytes[p] = other->bytes[p];
    plan->n_places = other->n_places;
}

static uint64_t activation_bytes(const qn_engine *e, const qn_plan *plan, int place)
{
    size_t least_bytes = 1; /* a backend without work has a buffer too, so that there is an address */
    for (int p = 0; p < e->n_backends; p++)
        if (e->backends[p]->alignment > least_bytes) least_bytes = e->backends[p]->alignment;
    return plan->bytes[place] ? plan->bytes[place] : least_bytes;
}

/* Objects without a size of their own in the options: session, scheduler, index of the plan cache, headers of blocks.
 */
#define OBJECT_BYTES           (20 << 10) /* measured: 18.3 KiB, of which the session's arena is 16 */
#define OBJECT_BYTES_A_BACKEND (1 << 10)  /* measured: 0.6 KiB */

qn_estimate qn__estimate_of(const qn_engine *e, const qn_session_shape *shape, const qn_kv_layout *layout,
                            const qn_kv_desc *kv, const qn_plan *plan)
{
    qn_estimate est = {.kv_bytes = layout->total_bytes};
    est.logits_bytes = qn__output_bytes(e, shape);
    est.table_bytes =
        qn__memory_bytes(kv->sizes, kv->n_groups) +
        (uint64_t)shape->n_batch * ((uint64_t)qn__inputs_a_token(e) * sizeof(int32_t) + sizeof(qn_batch_item));
    for (int p = 0; p < e->n_backends; p++) {
        const uint64_t lists = layout->bytes[p] ? kv->list_bytes : 0, activations = activation_bytes(e, plan, p);
        est.activation_bytes += activations;
        est.table_bytes += lists;
        est.backend_bytes[p] = layout->bytes[p] + lists + activations;
        if (e->backends[p]->type->memory) est.device_bytes += est.backend_bytes[p];
    }
    est.table_bytes += OBJECT_BYTES + (uint64_t)e->n_backends * OBJECT_BYTES_A_BACKEND;
    est.table_bytes += e->model->hp.n_layer * (sizeof(*layout->place) + sizeof(qn_kv_layer));
    est.total_bytes = est.kv_bytes + est.activation_bytes + est.logits_bytes + est.table_bytes;
    return est;
}

/* What each part of the engine's adapters needs. Under lock. */
static qn_status plan_parts(qn_engine *e, qn_session_shape shape, qn_sched *sched, const qn_kv_desc *kv, qn_plan *out,
                            qn_error *err)
{
    qn_status status = QN_OK;
    *out = (qn_plan){0};
    for (int32_t i = 0; status == QN_OK && qn__lora_part(e, i, &shape.loras); i++) {
        qn_graph *graph = NULL;
        qn_plan plan;
        status = qn__worst_graph(e, &shape, kv, &graph, err);
        if (status == QN_OK) status = qn__sched_dry_run(sched, graph, &plan, NULL, NULL, err);
        if (status == QN_OK) qn__plan_cover(out, &plan);
        qn__graph_destroy(graph);
    }
    return status;
}

static qn_status estimate(qn_engine *e, const qn_session_shape *shape, qn_arena *arena, qn_estimate *out, qn_error *err)
{
    qn_kv_layout layout;
    qn_kv_desc kv;
    qn_stand_in stand_in;
    qn_sched *sched = NULL;
    qn_plan plan;
    QN_TRY(qn__kv_layout(e, shape, arena, &layout, &kv, err));
    const qn_sched_options options = {.strict = e->strict, .passes_off = e->passes_off};
    QN_TRY(qn__sched_create(e->backends, e->n_backends, &options, &sched, err));
    qn__stand_in(e, &layout, &kv, &stand_in);
    qn__mutex_lock(&e->lock);
    const qn_status status = plan_parts(e, *shape, sched, &kv, &plan, err);
    qn__mutex_unlock(&e->lock);
    if (status == QN_OK) *out = qn__estimate_of(e, shape, &layout, &kv, &plan);
    qn__sched_destroy(sched);
    return status;
}

static qn_status estimate_shape(qn_engine *e, const qn_session_shape *shape, qn_estimate *out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    const qn_status status = estimate(e, shape, &arena, out, err);
    qn__arena_deinit(&arena);
    return status;
}

qn_status qn_engine_estimate(qn_engine *e, const qn_session_options *options, qn_estimate *out, qn_error *err)
{
    qn_session_shape shape = {0};
    QN_TRY(qn__session_shape(e, options, &shape, err));
    return estimate_shape(e, &shape, out, err);
}

/* The first device that has no room for its part; -1: all have. */
static int too_small(const qn_engine *e, const qn_estimate *est)
{
    for (int p = 0; p < e->n_backends; p++) {
        const qn_backend *be = e->backends[p];
        if (be->type->memory && est->backend_bytes[p] > be->type->memory(be).left) return p;
    }
    return -1;
}

/* Of the host's memory `bytes`, and of each device's what is left. */
static bool fits_in(const qn_engine *e, const qn_estimate *est, uint64_t bytes)
{
    return est->total_bytes - est->device_bytes <= bytes && too_small(e, est) < 0;
}

/* Largest value in [1, hi] of `field`, a member of `options`, whose estimate fits; memory grows with either field, so
 * halving the interval finds it. */
static qn_status fit(qn_engine *e, const qn_session_options *options, int32_t *field, int32_t hi, uint64_t bytes,
                     int32_t *out, qn_error *err)
{
    int32_t lo = 0;
    while (lo < hi) {
        qn_session_shape shape = {0};
        qn_estimate est;
        qn_error why;
        *field = lo + (hi - lo + 1) / 2;
        QN_TRY(qn__session_shape(e, options, &shape, err));
        const qn_status status = estimate_shape(e, &shape, &est, &why);
        if (status != QN_OK && status != QN_STATUS_limit) { /* what is beyond all limits is merely too large */
            if (err) *err = why;
            return status;
        }
        if (status == QN_OK && fits_in(e, &est, bytes))
            lo = *field;
        else
            hi = *field - 1;
    }
    *out = lo;
    return QN_OK;
}

qn_status qn_engine_fit_ctx(qn_engine *e, const qn_session_options *options, uint64_t bytes, int32_t *n_ctx,
                            qn_error *err)
{
    qn_session_options o = options ? *options : (qn_session_options){0};
    return fit(e, &o, &o.n_ctx, 1 << 28, bytes, n_ctx, err);
}

qn_status qn__fit_batch(qn_engine *e, const qn_session_options *options, int32_t most, uint64_t bytes, int32_t *n_batch,
                        qn_error *err)
{
    qn_session_options o = *options;
    return fit(e, &o, &o.n_batch, most, bytes, n_batch, err);
}

qn_status qn_engine_fit_batch(qn_engine *e, const qn_session_options *options, uint64_t bytes, int32_t *n_batch,
                              qn_error *err)
{
    qn_session_shape shape = {0};
    QN_TRY(qn__session_shape(e, options, &shape, err));
    qn_session_options o = options ? *options : (qn_session_options){0};
    return fit(e, &o, &o.n_batch, shape.n_ctx, bytes, n_batch, err);
}

/* ---- is there that much? --------------------------------------------------------------------- */

uint64_t qn__memory_limit(uint64_t asked) { return asked ? asked : qn__memory_free(""); }

/* Weights that a session needs beside it: of a limit that the caller gave, all; of the machine's free memory, those
 * that are only mapped, as the others have been taken from it. Mapped weights that exceed memory by themselves run
 * anyway, from the disk again and again: then no session is to blame. */
static uint64_t weights_beside(qn_engine *e, uint64_t asked, uint64_t limit)
{
    if (asked) return e->info.weight_bytes;
    const uint64_t mapped = e->locked ? 0 : e->info.weight_bytes - e->info.copied_bytes;
    if (mapped <= limit) return mapped;
    char need[32], have[32];
    if (!atomic_exchange(&e->warned_size, true))
        qn__log(QN_LOG_warn,
                "the weights take %s, %s of memory are free: parts will be read from the disk again and again",
                qn__str_bytes(need, sizeof(need), mapped), qn__str_bytes(have, sizeof(have), limit));
    return 0;
}

#define OTHERS 16 /* this part of the machine's free memory is left to others; a cgroup's limit is ours alone */

uint64_t qn__memory_of(uint64_t asked)
{
    if (asked != QN_MEMORY_AUTO) return asked;
    const uint64_t free_bytes = qn__memory_free(""), machine = qn__meminfo_bytes("", "MemAvailable"),
                   own = QN_GAUGE_READ(live_bytes);
    if (free_bytes == 0 || free_bytes == UINT64_MAX) return 0;
    return own + (free_bytes < machine ? free_bytes : free_bytes - free_bytes / OTHERS);
}

uint64_t qn__least_memory(const qn_engine *e)
{
    return qn__paging_least(e->info.weight_bytes, e->memory ? e->reserve : QN_PAGING_RESERVE);
}

/* Of what the process may use: what others of it have taken, and what reading weights takes at the least. */
static uint64_t left_of(const qn_engine *e)
{
    const uint64_t taken = QN_GAUGE_READ(live_bytes) + qn__least_memory(e);
    return e->memory > taken ? e->memory - taken : 0;
}

bool qn__session_fits(qn_engine *e, uint64_t asked, const qn_estimate *est, uint64_t *left)
{
    const uint64_t limit = qn__memory_limit(asked);
    const bool alone = limit == UINT64_MAX || (e->memory && !asked); /* weights make do with what the session leaves */
    const uint64_t beside = alone ? 0 : weights_beside(e, asked, limit);
    *left = limit > beside ? limit - beside : 0;
    if (e->memory && left_of(e) < *left) *left = left_of(e);
    return fits_in(e, est, *left);
}

static qn_status too_large_for(const qn_backend *be, const qn_session_shape *shape, uint64_t bytes, int32_t n,
                               qn_error *err)
{
    char need[32], have[32], advice[64] = "none fits";
    if (n > 0) snprintf(advice, sizeof(advice), "the largest that fits is %d", n);
    return QN_FAIL(err, limit,
                   "%s: a context of %d tokens needs %s there, %s are free beside the weights: %s; fewer layers there "
                   "(--gpu-layers), a smaller KV type or batch make room for more",
                   be->name, shape->n_ctx, qn__str_bytes(need, sizeof(need), bytes),
                   qn__str_bytes(have, sizeof(have), be->type->memory(be).left), advice);
}

/* The option that left so little beside the weights; "": the machine has no more. */
static const char *limited_by(const qn_engine *e, const qn_session_options *options, uint64_t left)
{
    const uint64_t asked = options->memory_limit ? options->memory_limit : e->memory_limit,
                   weights = e->info.weight_bytes;
    if (asked && asked != UINT64_MAX && left == (asked > weights ? asked - weights : 0)) return " (memory_limit)";
    return e->memory && left_of(e) < qn__memory_limit(0) ? " (memory)" : "";
}

qn_status qn__session_too_large(qn_engine *e, const qn_session_options *options, const qn_session_shape *shape,
                                const qn_estimate *est, uint64_t left, qn_error *err)
{
    int32_t n = 0;
    char need[32], kv[32], have[32], advice[160];
    QN_TRY(qn_engine_fit_ctx(e, options, left, &n, err));
    const int p = too_small(e, est);
    if (p >= 0) return too_large_for(e->backends[p], shape, est->backend_bytes[p], n, err);
    const char *by = limited_by(e, options, left);
    if (n > 0)
        snprintf(advice, sizeof(advice), "the largest that fits is %d; a smaller KV type or batch makes room for more",
                 n);
    else
        snprintf(advice, sizeof(advice), "none fits; %s, or take a smaller model, KV type or batch",
                 *by ? "allow more" : "free memory");
    return QN_FAIL(
        err, limit,
        "a context of %d tokens needs %s (%s of it KV cache), %s of memory are free beside the weights%s: %s",
        shape->n_ctx, qn__str_bytes(need, sizeof(need), est->total_bytes), qn__str_bytes(kv, sizeof(kv), est->kv_bytes),
        qn__str_bytes(have, sizeof(have), left), by, advice);
}
