/* SPDX-License-Identifier: MIT */
/* src/array/eval/look.c -- looking inside: runs with a callback, which may stop them, and with times; printed graphs,
 * plans and passes. */
#include "array/array.h"

#include <string.h>

/* Is there such a context, and what else the function needs? */
static bool usable(qn_context *ctx, const void *out, const char *call, const char *what)
{
    if (ctx == NULL) return false;
    if (!ctx->ended) return qn__given_at(ctx, out, call, what);
    (void)QN_FAIL(qn__err(ctx), state, "this context was destroyed");
    return false;
}
#define USABLE(ctx, out, what) usable((ctx), (out), __func__, (what))

static qn_status why(const qn_context *ctx) { return ctx != NULL ? qn__status(ctx) : QN_STATUS_invalid; }

void qn_context_set_eval(qn_context *ctx, qn_eval_fn fn, void *arg)
{
    if (ctx == NULL) return;
    ctx->look.eval = fn;
    ctx->look.eval_arg = arg;
}

void qn_context_set_timing(qn_context *ctx, bool on)
{
    if (ctx != NULL) ctx->look.timing = on;
}

qn_status qn_context_read_node(qn_context *ctx, const qn_node *node, float *dst, uint64_t bytes)
{
    if (!USABLE(ctx, node, "the node") || !USABLE(ctx, dst, "the memory")) return why(ctx);
    qn_error *err = qn__err(ctx);
    if (ctx->look.running == NULL) return QN_FAIL(err, state, "node values can be read only inside the callback");
    return qn__exec_read(ctx->look.running, node, dst, bytes, err);
}

/* ---- what a run writes, as it was ---- */

static qn_status copy_buffer(qn_buffer *to, const qn_buffer *from, uint64_t bytes, qn_error *err)
{
    if (bytes == 0) return QN_OK;
    if (from->host != NULL) return to->backend->type->upload(to, 0, from->host, bytes, err);
    if (to->host != NULL) return from->backend->type->download(from, 0, to->host, bytes, err);
    void *staging = qn__alloc((size_t)bytes);
    if (staging == NULL) return QN_FAIL_NOMEM(err, bytes);
    qn_status status = from->backend->type->download(from, 0, staging, bytes, err);
    if (status == QN_OK) status = to->backend->type->upload(to, 0, staging, bytes, err);
    qn__free(staging);
    return status;
}

static bool is_written(const qn_leaf *leaf)
{
    return leaf->storage != NULL && (leaf->node->flags & QN_NODE_mutable) != 0;
}

static void drop_copies(qn_context *ctx)
{
    qn_memory **before = ctx->look.before;
    for (int32_t i = 0; before != NULL && i < ctx->n_leaves; i++) {
        if (before[i] != NULL) qn__memory_put(ctx, before[i]);
    }
    qn__free(before);
    ctx->look.before = NULL;
}

static qn_status copy_written(qn_context *ctx, qn_error *err)
{
    qn_memory **before = qn__calloc((size_t)ctx->n_leaves + 1, sizeof *before);
    if (before == NULL) return QN_FAIL_NOMEM(err, ((size_t)ctx->n_leaves + 1) * sizeof *before);
    ctx->look.before = before;
    for (int32_t i = 0; i < ctx->n_leaves; i++) {
        const qn_leaf *leaf = &ctx->leaves[i];
        if (!is_written(leaf)) continue;
        const uint64_t bytes = (uint64_t)qn__node_bytes(leaf->node);
        const qn_memory *m = leaf->storage->memory;
        QN_TRY(qn__memory_get(ctx, m->place, bytes, &before[i], err));
        QN_TRY(copy_buffer(before[i]->buffer, m->buffer, bytes, err));
    }
    return QN_OK;
}

/* Both buffers exist, so nothing can fail but a device, whose memory is lost anyhow. */
static void restore_written(qn_context *ctx)
{
    for (int32_t i = 0; i < ctx->n_leaves; i++) {
        const qn_leaf *leaf = &ctx->leaves[i];
        if (!is_written(leaf)) continue;
        (void)copy_buffer(leaf->storage->memory->buffer, ctx->look.before[i]->buffer,
                          (uint64_t)qn__node_bytes(leaf->node), NULL);
    }
}

/* ---- running ---- */

static bool call_eval(void *arg, const qn_node *node, bool after)
{
    qn_context *ctx = arg;
    return ctx->look.eval(ctx->look.eval_arg, node, after);
}

/* Memory is bound elsewhere next, and a device says only now what it met. */
static qn_status run_to_end(qn_exec *e, const qn_run *run, qn_error *err)
{
    const qn_status status = qn__exec_run(e, run, err), end = qn__exec_wait(e, status == QN_OK ? err : NULL);
    return status != QN_OK ? status : end;
}

static qn_status run_watched(qn_context *ctx, qn_exec *e, const qn_run *run, bool *undone, qn_error *err)
{
    qn_status status = copy_written(ctx, err);
    *undone = status != QN_OK;
    if (status == QN_OK) {
        ctx->look.running = e;
        status = run_to_end(e, run, err);
        ctx->look.running = NULL;
        *undone = status == QN_STATUS_cancelled;
        if (*undone) restore_written(ctx);
    }
    drop_copies(ctx);
    return status;
}

qn_status qn__look_run(qn_context *ctx, qn_exec *e, int32_t *stopped, bool *undone, qn_error *err)
{
    qn_looking *l = &ctx->look;
    const bool timed = l->timing && qn__exec_prepare_times(e, &l->times, NULL) == QN_OK;
    const qn_run run = {.eval = l->eval != NULL ? call_eval : NULL,
                        .eval_ctx = ctx,
                        .node_ns = timed ? l->times.ns : NULL,
                        .stopped = stopped};
    l->last = e;
    l->last_timed = timed;
    return l->eval != NULL ? run_watched(ctx, e, &run, undone, err) : run_to_end(e, &run, err);
}

/* ---- printing ---- */

/* What would run, refined and placed, without compiling it. The caller destroys the graph. */
static qn_status next_graph(qn_context *ctx, qn_graph **graph, qn_pass_report *passes, qn_str *plan, qn_error *err)
{
    int32_t n_outputs;
    QN_TRY(qn__mark_outputs(ctx, &n_outputs, err));
    qn_status status = qn__graph_clone(ctx->graph, graph, err);
    qn__unmark_outputs(ctx);
    if (status != QN_OK) return status;
    status = qn__sched_dry_run(ctx->sched, *graph, NULL, passes, plan, err);
    if (status != QN_OK) qn__graph_destroy(*graph);
    return status;
}

static qn_status need_last(const qn_context *ctx, qn_error *err)
{
    return ctx->look.last != NULL ? QN_OK : QN_FAIL(err, state, "the graph of the last run is gone, or none has run");
}

qn_status qn_context_print_graph(qn_context *ctx, qn_which_run run, qn_graph_format format, char **out)
{
    if (!USABLE(ctx, out, "the result")) return why(ctx);
    qn_error *err = qn__err(ctx);
    qn_graph *graph = NULL;
    if (run == QN_LAST_RUN) {
        QN_TRY(need_last(ctx, err));
        return qn__sched_print_graph(ctx->sched, qn__exec_graph(ctx->look.last), -1,
                                     ctx->look.last_timed ? ctx->look.times.ns : NULL, "last run", format,
                                     ctx->look.last_timed ? QN_GRAPH_COLOR_time : QN_GRAPH_COLOR_backend, out, err);
    }
    QN_TRY(next_graph(ctx, &graph, NULL, NULL, err));
    const qn_status status =
        qn__sched_print_graph(ctx->sched, graph, -1, NULL, "next run", format, QN_GRAPH_COLOR_backend, out, err);
    qn__graph_destroy(graph);
    return status;
}

qn_status qn_context_print_plan(qn_context *ctx, qn_which_run run, char **out)
{
    if (!USABLE(ctx, out, "the result")) return why(ctx);
    qn_error *err = qn__err(ctx);
    qn_graph *graph = NULL;
    qn_str text = {0};
    qn_status status;
    if (run == QN_LAST_RUN) {
        QN_TRY(need_last(ctx, err));
        status = qn__exec_print_plan(ctx->look.last, &text, err);
    } else {
        status = next_graph(ctx, &graph, NULL, &text, err);
        if (status == QN_OK) qn__graph_destroy(graph);
    }
    return qn__look_take(&text, status, out, err);
}

static qn_status report_of(qn_context *ctx, qn_which_run run, qn_pass_report *out, qn_error *err)
{
    qn_graph *graph = NULL;
    if (run == QN_LAST_RUN) {
        QN_TRY(need_last(ctx, err));
        *out = *qn__exec_passes(ctx->look.last);
        return QN_OK;
    }
    QN_TRY(next_graph(ctx, &graph, out, NULL, err));
    qn__graph_destroy(graph);
    return QN_OK;
}

qn_status qn_context_print_passes(qn_context *ctx, qn_which_run run, char **out)
{
    if (!USABLE(ctx, out, "the result")) return why(ctx);
    qn_error *err = qn__err(ctx);
    qn_pass_report report;
    qn_str text = {0};
    QN_TRY(report_of(ctx, run, &report, err));
    qn__passes_print(&report, &text);
    return qn__look_take(&text, QN_OK, out, err);
}

qn_status qn_context_get_passes(qn_context *ctx, qn_which_run run, qn_pass_stats *out)
{
    if (!USABLE(ctx, out, "the result")) return why(ctx);
    qn_error *err = qn__err(ctx);
    qn_pass_report report;
    QN_TRY(report_of(ctx, run, &report, err));
    memcpy(out, report.stats, sizeof report.stats);
    return QN_OK;
}
