/* SPDX-License-Identifier: MIT */
/* src/engine/session_look.c -- looking inside: callbacks, node values, statistics, printed graphs, plans and passes. */
#include "engine/engine.h"
#include <quern/tap.h>
#include <string.h>

void qn_session_set_eval(qn_session *s, qn_eval_fn fn, void *ctx)
{
    s->eval = fn;
    s->eval_ctx = ctx;
}

qn_status qn_session_read_node(qn_session *s, const qn_node *node, float *dst, uint64_t bytes, qn_error *err)
{
    if (!s->running) return QN_FAIL(err, state, "node values can be read only inside the callback");
    return qn__exec_read(s->running, node, dst, bytes, err);
}

void qn_session_get_stats(const qn_session *s, qn_session_stats *out)
{
    *out = s->stats;
    out->reserved_bytes = qn__sched_reserved_bytes(s->sched);
}

/* The graph as it would run, without compiling it. */
static qn_status refined_graph(qn_session *s, int32_t n_tokens, qn_graph **graph, qn_pass_report *passes,
                               qn_str *places, qn_error *err)
{
    if (n_tokens < 1 || n_tokens > s->shape.n_batch)
        return QN_FAIL(err, invalid, "a graph of %d tokens; 1 to the batch of %d are possible", n_tokens,
                       s->shape.n_batch);
    const qn_decode_spec spec = qn__decode_spec(s->engine, &s->shape, n_tokens, 1);
    QN_TRY(qn__build_decode(s->engine->model, &s->kv_desc, &spec, graph, err));
    const qn_status status = qn__sched_dry_run(s->sched, *graph, NULL, passes, places, err);
    if (status == QN_OK) return QN_OK;
    qn__graph_destroy(*graph);
    return status;
}

void qn_session_set_timing(qn_session *s, bool on) { s->timing = on; }

static qn_status print(const qn_session *s, const qn_graph *graph, int layer, const double *node_ns,
                       qn_graph_format format, char **out, qn_error *err)
{
    return qn__sched_print_graph(s->sched, graph, layer, node_ns, s->engine->info.name, format, out, err);
}

static qn_status check_layer(const qn_session *s, int layer, qn_error *err)
{
    const int n_layer = (int)s->engine->model->hp.n_layer;
    if (layer >= -1 && layer < n_layer) return QN_OK;
    return QN_FAIL(err, invalid, "layer %d; the model has 0 to %d", layer, n_layer - 1);
}

qn_status qn_session_print_last(qn_session *s, int layer, qn_graph_format format, char **out, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(check_layer(s, layer, err));
    if (!s->last) return QN_FAIL(err, state, "no graph has run yet");
    return print(s, qn__exec_graph(s->last), layer, s->last_timed ? s->times.ns : NULL, format, out, err);
}

qn_status qn_session_print_graph(qn_session *s, int32_t n_tokens, int layer, qn_graph_format format, char **out,
                                 qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_graph *graph = NULL;
    QN_TRY(check_layer(s, layer, err));
    QN_TRY(refined_graph(s, n_tokens, &graph, NULL, NULL, err));
    const qn_status status = print(s, graph, layer, NULL, format, out, err);
    qn__graph_destroy(graph);
    return status;
}

qn_status qn_session_print_plan(qn_session *s, int32_t n_tokens, char **out, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_graph *graph = NULL;
    qn_str text = {0};
    const qn_status status = refined_graph(s, n_tokens, &graph, NULL, &text, err);
    if (status == QN_OK) qn__graph_destroy(graph);
    return qn__look_take(&text, status, out, err);
}

/* ---- names ---- */

static bool add_alias(void *ctx, const char *alias)
{
    qn_str *out = ctx;
    qn__str_printf(out, " = %s", alias);
    return false;
}

static void print_value(const qn_graph *g, const qn_node *n, qn_str *out)
{
    const qn_value_role *role = qn__role_of(n);
    qn__str_printf(out, "%s %s [", n->name, qn_dtype_get(n->dtype)->name);
    for (int i = 0; i < n->layout.rank; i++) qn__str_printf(out, "%s%lld", i ? "," : "", (long long)n->layout.dim[i]);
    qn__str_puts(out, "]");
    qn__aliases(g, n, add_alias, out);
    qn__str_printf(out, "%s%s\n", role ? "  " : "", role ? role->text : "");
}

static bool shown(int layer, const qn_node *n) { return layer < 0 || n->layer == layer; }

static void print_values(const qn_graph *g, int layer, qn_str *out)
{
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op != QN_OP_param && shown(layer, g->nodes[i])) print_value(g, g->nodes[i], out);
    for (const qn_node *n = g->gone; n; n = n->next_gone) {
        const qn_node *into = qn__node_into(n);
        if (shown(layer, n) && n->op != QN_OP_param)
            qn__str_printf(out, "%s  removed by pass %s%s%s\n", n->name, qn_pass_name((qn_pass)n->gone_by),
                           into ? ", now in " : "", into ? into->name : "");
    }
}

qn_status qn_session_print_values(qn_session *s, int32_t n_tokens, int layer, char **out, qn_error *err)
{
    qn_graph *graph = NULL;
    qn_str text = {0};
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(check_layer(s, layer, err));
    QN_TRY(refined_graph(s, n_tokens, &graph, NULL, NULL, err));
    print_values(graph, layer, &text);
    qn__graph_destroy(graph);
    return qn__look_take(&text, QN_OK, out, err);
}

static qn_status report_of(qn_session *s, int32_t n_tokens, qn_pass_report *passes, qn_error *err)
{
    qn_graph *graph = NULL;
    QN_TRY(refined_graph(s, n_tokens, &graph, passes, NULL, err));
    qn__graph_destroy(graph);
    return QN_OK;
}

qn_status qn_session_get_passes(qn_session *s, int32_t n_tokens, qn_pass_stats *out, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_pass_report passes;
    QN_TRY(report_of(s, n_tokens, &passes, err));
    memcpy(out, passes.stats, sizeof passes.stats);
    return QN_OK;
}

qn_status qn_session_print_passes(qn_session *s, int32_t n_tokens, char **out, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_pass_report passes;
    qn_str text = {0};
    QN_TRY(report_of(s, n_tokens, &passes, err));
    qn__passes_print(&passes, &text);
    return qn__look_take(&text, QN_OK, out, err);
}
