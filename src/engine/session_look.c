/* SPDX-License-Identifier: MIT */
/* src/engine/session_look.c -- looking inside: callbacks, node values, statistics, printed graphs, plans and passes. */
#include "engine/engine.h"
#include <quern/tap.h>
#include "base/mem.h"
#include <math.h>
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

qn_status qn__session_refined(qn_session *s, int32_t n_tokens, int32_t n_out, qn_graph **graph, qn_pass_report *passes,
                              qn_str *places, qn_error *err)
{
    if (n_tokens < 1 || n_tokens > s->shape.n_batch)
        return QN_FAIL(err, invalid, "a graph of %d tokens; 1 to the batch of %d are possible", n_tokens,
                       s->shape.n_batch);
    const qn_decode_spec spec = qn__decode_spec(s->engine, &s->shape, n_tokens, n_out);
    QN_TRY(qn__build_decode(s->engine->model, &s->kv_desc, &spec, graph, err));
    const qn_status status = qn__sched_dry_run(s->sched, *graph, NULL, passes, places, err);
    if (status == QN_OK) return QN_OK;
    qn__graph_destroy(*graph);
    return status;
}

void qn_session_set_timing(qn_session *s, bool on) { s->timing = on; }

static qn_status print(const qn_session *s, const qn_graph *graph, int layer, const double *node_ns,
                       qn_graph_format format, qn_graph_color color, char **out, qn_error *err)
{
    return qn__sched_print_graph(s->sched, graph, layer, node_ns, s->engine->info.name, format, color, out, err);
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
    const qn_graph_color color = s->last_timed ? QN_GRAPH_COLOR_time : QN_GRAPH_COLOR_backend;
    return print(s, qn__exec_graph(s->last), layer, s->last_timed ? s->times.ns : NULL, format, color, out, err);
}

qn_status qn_session_print_colored(qn_session *s, int32_t n_tokens, int layer, qn_graph_format format,
                                   qn_graph_color color, char **out, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_graph *graph = NULL;
    QN_TRY(check_layer(s, layer, err));
    QN_TRY(qn__session_refined(s, n_tokens, 1, &graph, NULL, NULL, err));
    const qn_status status = print(s, graph, layer, NULL, format, color, out, err);
    qn__graph_destroy(graph);
    return status;
}

qn_status qn_session_print_graph(qn_session *s, int32_t n_tokens, int layer, qn_graph_format format, char **out,
                                 qn_error *err)
{
    return qn_session_print_colored(s, n_tokens, layer, format, QN_GRAPH_COLOR_backend, out, err);
}

qn_status qn_session_print_plan(qn_session *s, int32_t n_tokens, char **out, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_graph *graph = NULL;
    qn_str text = {0};
    const qn_status status = qn__session_refined(s, n_tokens, 1, &graph, NULL, &text, err);
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
    QN_TRY(qn__session_refined(s, n_tokens, 1, &graph, NULL, NULL, err));
    print_values(graph, layer, &text);
    qn__graph_destroy(graph);
    return qn__look_take(&text, QN_OK, out, err);
}

static qn_status report_of(qn_session *s, int32_t n_tokens, qn_pass_report *passes, qn_error *err)
{
    qn_graph *graph = NULL;
    QN_TRY(qn__session_refined(s, n_tokens, 1, &graph, passes, NULL, err));
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

/* ---- costs ---- */

/* As many of them as n draws of `used` different ones each come to on average. */
static double experts_of(const qn_trace_node_cost *c, const qn_layout *ids)
{
    const double n = c->n_experts, used = (double)ids->dim[ids->rank - 1],
                 draws = (double)c->n_used / (used > 0 ? used : 1);
    return n * (1 - pow(1 - used / n, draws));
}

/* A weight that an earlier node has read is not read again. */
static double weights_of(const qn_node *n, const qn_trace_node_cost *c, bool *seen)
{
    double bytes = (double)c->weight_bytes;
    for (int i = 0; i < n->n_src; i++) {
        const qn_node *src = n->src[i], *root = src->root;
        if (root->op != QN_OP_param || (root->flags & QN_NODE_mutable)) continue;
        if (seen[root->id]) bytes -= (double)qn__node_bytes(src);
        seen[root->id] = seen[root->id] || (double)qn__node_bytes(src) <= (double)c->weight_bytes;
    }
    return bytes > 0 ? bytes : 0;
}

static void add_ops(const qn_node *n, double ops, qn_batch_cost *out)
{
    const int follows = qn__op_info(n->op)->follows;
    const qn_node *w = follows >= 0 && follows < n->n_src ? n->src[follows] : NULL;
    if (!w || w->root->op != QN_OP_param || (w->root->flags & QN_NODE_mutable) || w->layout.rank < 2) return;
    if (qn_dtype_get(w->dtype)->class_ == QN_CLASS_block)
        out->int8_ops += ops;
    else if (w->dtype == QN_DTYPE_BF16)
        out->bf16_ops += ops;
    else if (w->dtype == QN_DTYPE_F16)
        out->f16_ops += ops;
    else
        out->f32_ops += ops;
}

static void add_cells(const qn_node *spans, double cell_bytes, qn_batch_cost *out)
{
    for (int k = 0; k < out->n_sights; k++)
        if (strcmp(qn__span_names[k], spans->root->name) == 0) out->sights[k].cell_bytes += cell_bytes;
}

static qn_status sum_costs(const qn_graph *g, qn_batch_cost *out, qn_error *err)
{
    bool *seen = qn__calloc((size_t)g->n_nodes + 1, sizeof(*seen));
    if (!seen) return QN_FAIL_NOMEM(err, (size_t)g->n_nodes);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        const qn_trace_node_cost c = qn__node_cost(n);
        out->weight_bytes += weights_of(n, &c, seen);
        if (c.n_experts > 0) out->weight_bytes += (double)c.expert_bytes * experts_of(&c, &n->src[2]->layout);
        add_ops(n, (double)c.ops, out);
        if (c.sight > 0) add_cells(n->src[c.sight - 1], (double)c.cell_bytes, out);
    }
    qn__free(seen);
    return QN_OK;
}

qn_status qn_session_get_cost(qn_session *s, int32_t n_tokens, int32_t n_out, qn_batch_cost *out, qn_error *err)
{
    const qn_model *m = s->engine->model;
    qn_graph *graph = NULL;
    QN_TRY(qn__session_idle(s, err));
    if (n_out < 1 || n_out > n_tokens)
        return QN_FAIL(err, invalid, "logits of %d of %d tokens; 1 to all are possible", n_out, n_tokens);
    QN_TRY(qn__session_refined(s, n_tokens, n_out, &graph, NULL, NULL, err));
    *out = (qn_batch_cost){.n_sights = m->n_sights};
    for (int k = 0; k < m->n_sights; k++) out->sights[k].reach = qn__sight_reach(&m->sights[k]);
    const qn_status status = sum_costs(graph, out, err);
    qn__graph_destroy(graph);
    return status;
}
