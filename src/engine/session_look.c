/* SPDX-License-Identifier: MIT */
/* src/engine/session_look.c -- looking inside: callbacks, node values, statistics, printed graphs and plans. */
#include "engine/engine.h"
#include <string.h>

void qn_session_set_eval(qn_session *s, qn_eval_fn fn, void *ctx)
{
    s->eval = fn;
    s->eval_ctx = ctx;
}

qn_status qn_session_read_node(qn_session *s, const qn_node *node, float *dst, uint64_t bytes, qn_error *err)
{
    if (!s->running) return QN_FAIL(err, state, "node values can be read only inside the callback");
    const int64_t n = qn_layout_numel(&node->layout);
    const qn_dtype_info *info = qn_dtype_get(node->dtype);
    if (bytes != (uint64_t)n * sizeof(float))
        return QN_FAIL(err, invalid, "node %s has %lld values; %llu bytes were offered, 4 each are expected",
                       node->name, (long long)n, (unsigned long long)bytes);
    if (!qn_layout_is_contiguous(&node->layout) || (info->class_ != QN_CLASS_real && info->class_ != QN_CLASS_block))
        return QN_FAIL(err, unsupported, "node %s is a strided view or of type %s", node->name, info->name);
    if (node->dtype == QN_DTYPE_F32) return qn__exec_peek(s->running, node, dst, 0, bytes, err);
    const uint64_t raw_bytes = (uint64_t)qn_dtype_row_bytes(node->dtype, n);
    void *raw = qn__alloc(raw_bytes);
    if (!raw) return QN_FAIL_NOMEM(err, raw_bytes);
    qn_status status = qn__exec_peek(s->running, node, raw, 0, raw_bytes, err);
    if (status == QN_OK) status = qn_unpack(node->dtype, raw, dst, n, err);
    qn__free(raw);
    return status;
}

void qn_session_get_stats(const qn_session *s, qn_session_stats *out)
{
    *out = s->stats;
    out->reserved_bytes = qn__sched_reserved_bytes(s->sched);
}

/* The graph as it would run, without compiling it. */
static qn_status refined_graph(qn_session *s, int32_t n_tokens, qn_graph **graph, qn_plan *plan, qn_str *places,
                               qn_error *err)
{
    if (n_tokens < 1 || n_tokens > s->shape.n_batch)
        return QN_FAIL(err, invalid, "a graph of %d tokens; 1 to the batch of %d are possible", n_tokens,
                       s->shape.n_batch);
    const qn_decode_spec spec = {n_tokens, 1, s->shape.loras.use, s->shape.loras.n};
    QN_TRY(qn__build_decode(s->engine->model, &s->kv_desc, &spec, graph, err));
    const qn_status status = qn__sched_dry_run(s->sched, *graph, plan, places, err);
    if (status == QN_OK) return QN_OK;
    qn__graph_destroy(*graph);
    return status;
}

static qn_status take(qn_str *text, qn_status status, char **out, qn_error *err)
{
    char *taken = status == QN_OK ? qn__str_take(text, NULL) : NULL;
    qn__str_deinit(text);
    if (status != QN_OK) return status;
    if (!taken) return QN_FAIL(err, nomem, "out of memory while printing");
    *out = taken;
    return QN_OK;
}

void qn_session_set_timing(qn_session *s, bool on) { s->timing = on; }

/* Prints with the backends' names and, when given, measured times. */
static qn_status print(const qn_session *s, const qn_graph *graph, int layer, const double *node_ns,
                       qn_graph_format format, char **out, qn_error *err)
{
    const char *names[QN_MAX_PLACES] = {0};
    qn_str text = {0};
    for (int p = 0; p < s->engine->n_backends; p++) names[p] = s->engine->backends[p]->name;
    const qn_print_options options = {.layer = layer,
                                      .by_layer_only = layer >= 0,
                                      .node_ns = node_ns,
                                      .place_names = names,
                                      .title = s->engine->info.name};
    const qn_status status = qn__graph_print(graph, format, &options, &text, err);
    return take(&text, status, out, err);
}

static qn_status check_layer(const qn_session *s, int layer, qn_error *err)
{
    const int n_layer = (int)s->engine->model->hp.n_layer;
    if (layer >= -1 && layer < n_layer) return QN_OK;
    return QN_FAIL(err, invalid, "layer %d; the model has 0 to %d", layer, n_layer - 1);
}

qn_status qn_session_print_last(qn_session *s, int layer, qn_graph_format format, char **out, qn_error *err)
{
    QN_TRY(check_layer(s, layer, err));
    if (!s->last) return QN_FAIL(err, state, "no graph has run yet");
    return print(s, qn__exec_graph(s->last), layer, s->last_timed ? s->node_ns : NULL, format, out, err);
}

qn_status qn_session_print_graph(qn_session *s, int32_t n_tokens, int layer, qn_graph_format format, char **out,
                                 qn_error *err)
{
    qn_graph *graph = NULL;
    qn_plan plan;
    QN_TRY(check_layer(s, layer, err));
    QN_TRY(refined_graph(s, n_tokens, &graph, &plan, NULL, err));
    const qn_status status = print(s, graph, layer, NULL, format, out, err);
    qn__graph_destroy(graph);
    return status;
}

qn_status qn_session_print_plan(qn_session *s, int32_t n_tokens, char **out, qn_error *err)
{
    qn_graph *graph = NULL;
    qn_plan plan;
    qn_str text = {0};
    const qn_status status = refined_graph(s, n_tokens, &graph, &plan, &text, err);
    if (status == QN_OK) qn__graph_destroy(graph);
    return take(&text, status, out, err);
}
