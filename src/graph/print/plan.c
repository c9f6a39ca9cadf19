/* SPDX-License-Identifier: MIT */
/* src/graph/print/plan.c -- the graph of a recorded step: nodes as the plan has them, which nothing can compute, for
 * the printers alone. A plan comes out of a file: its reader has checked the sources, here are names and sizes. */
#include "graph/print/print.h"
#include <quern/trace.h>
#include <stdio.h>
#include <string.h>

/* -1: none is called so. */
static int op_of(const char *name)
{
    for (int i = 0; i < QN_OP_COUNT; i++)
        if (strcmp(qn__op_info((qn_op)i)->name, name) == 0) return i;
    return -1;
}

static int dtype_of(const char *name)
{
    for (int i = 0; i < QN_DTYPE_COUNT; i++)
        if (strcmp(qn_dtype_get((qn_dtype)i)->name, name) == 0) return i;
    return -1;
}

static qn_status add_node(qn_graph *g, const qn_trace_node *from, qn_error *err)
{
    char text[64];
    const int op = op_of(from->op), dtype = dtype_of(from->dtype);
    if (op < 0 || dtype < 0)
        return QN_FAIL(err, format, "node %d of the recording: there is no %s \"%s\" here", from->id,
                       op < 0 ? "operation" : "type",
                       qn__str_quote(text, sizeof text, op < 0 ? from->op : from->dtype,
                                     strlen(op < 0 ? from->op : from->dtype)));
    if (from->n_src > QN_MAX_SRC || from->rank > QN_MAX_RANK || from->rank < 0 || from->n_src < 0)
        return QN_FAIL(err, format, "node %d of the recording has %d sources and %d dimensions", from->id, from->n_src,
                       from->rank);
    qn_node *n = qn__arena_alloc(&g->arena, sizeof *n);
    const char *name = qn__arena_strdup(&g->arena, from->name);
    if (n == NULL || name == NULL) return QN_FAIL_NOMEM(err, sizeof *n);
    *n = (qn_node){.op = (qn_op)op,
                   .dtype = (qn_dtype)dtype,
                   .n_src = from->n_src,
                   .id = from->id,
                   .flags = from->flags & (QN_NODE_output | QN_NODE_mutable | QN_NODE_const),
                   .layer = from->layer,
                   .name = name,
                   .place = from->place,
                   .hint = -1};
    n->root = n;
    n->layout.rank = from->rank;
    int64_t stride = 1;
    for (int i = from->rank - 1; i >= 0; i--) {
        n->layout.dim[i] = from->shape[i];
        n->layout.stride[i] = stride;
        if (__builtin_mul_overflow(stride, from->shape[i] > 0 ? from->shape[i] : 1, &stride)) stride = INT64_MAX / 2;
    }
    for (int i = 0; i < from->n_src; i++) n->src[i] = g->nodes[from->src[i]];
    g->nodes[g->n_nodes++] = n;
    return QN_OK;
}

static qn_status graph_of(const qn_trace_plan *plan, qn_graph *g, qn_error *err)
{
    g->nodes = qn__arena_array(&g->arena, (size_t)plan->n_nodes + 1, sizeof(*g->nodes));
    g->cap_nodes = plan->n_nodes + 1;
    if (g->nodes == NULL) return QN_FAIL_NOMEM(err, (size_t)plan->n_nodes * sizeof(*g->nodes));
    for (int32_t i = 0; i < plan->n_nodes; i++) QN_TRY(add_node(g, &plan->nodes[i], err));
    return QN_OK;
}

qn_status qn_trace_print_graph(const qn_trace_step *step, const double *node_ns, const double *node_bytes, int layer,
                               qn_graph_format format, qn_graph_color color, char **out, qn_error *err)
{
    char title[96];
    qn_str text = {0};
    qn_graph *g = NULL;
    snprintf(title, sizeof title, "step %llu, %s, %d tokens", (unsigned long long)step->number,
             qn_trace_phase_name(step->phase), step->n_tokens);
    QN_TRY(qn__graph_create(&g, err));
    const qn_print_options o = {.layer = layer,
                                .by_layer_only = layer >= 0,
                                .node_ns = node_ns,
                                .node_bytes = node_bytes,
                                .place_names = step->plan->places,
                                .color = color,
                                .title = title};
    qn_status status = color == QN_GRAPH_COLOR_bytes && node_bytes == NULL ? QN_FAIL(err, invalid, "no bytes are known")
                                                                           : graph_of(step->plan, g, err);
    if (status == QN_OK) status = qn__graph_print(g, format, &o, &text, err);
    qn__graph_destroy(g);
    char *taken = status == QN_OK ? qn__str_take(&text, NULL) : NULL;
    qn__str_deinit(&text);
    if (status != QN_OK) return status;
    if (taken == NULL) return QN_FAIL(err, nomem, "out of memory while a graph was printed");
    *out = taken;
    return QN_OK;
}
