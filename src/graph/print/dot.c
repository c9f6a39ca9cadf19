/* SPDX-License-Identifier: MIT */
/* src/graph/print/dot.c -- Graphviz: one box a node, a cluster a layer. Of one layer, what comes from outside is drawn
 * grey. */
#include "graph/print/print.h"
#include <string.h>

/* qn__str_quote leaves no quotes or controls; a backslash would still start an escape, and an ampersand an entity. */
static void put_escaped(qn_str *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\') qn__str_putc(out, '\\');
        if (*text == '&')
            qn__str_puts(out, "&amp;");
        else
            qn__str_putc(out, *text);
    }
}

static void put_node(const qn_print_options *o, const qn_node *n, bool outside, double most, qn_str *out)
{
    char text[QN_LABEL_TEXT], color[QN_COLOR_TEXT], time[QN_TIME_TEXT];
    const qn_op_kind kind = qn__op_info(n->op)->kind;
    const bool is_leaf = kind == QN_KIND_leaf;
    qn__str_printf(out, "  n%d [label=\"%s", n->id, qn__op_info(n->op)->name);
    qn__attrs_print(n, out);
    if (n->name[0] != '\0') {
        qn__str_puts(out, "\\n");
        put_escaped(out, qn__print_name(n->name, 48, text));
    }
    qn__str_puts(out, "\\n");
    qn__print_type(n, out);
    if (o->node_ns != NULL && o->node_ns[n->id] >= 0 && !is_leaf && kind != QN_KIND_view) {
        qn__str_printf(out, "\\n%s", qn__print_time(o->node_ns[n->id], time));
    }
    if (o->color == QN_GRAPH_COLOR_bytes && !is_leaf && kind != QN_KIND_view)
        qn__str_printf(out, "\\n%s", qn__print_measure(o, qn__print_bytes(o, n), time));
    if (o->place_names != NULL && n->place >= 0) {
        qn__str_puts(out, "\\n");
        put_escaped(out, qn__print_place(o, n->place, text));
    }
    qn__str_printf(out, "\", fillcolor=\"%s\"", outside ? "#eeeeee" : qn__print_color(o, n, most, color));
    if (is_leaf)
        qn__str_puts(out, ", style=\"filled,rounded\"");
    else if (kind == QN_KIND_view)
        qn__str_puts(out, ", style=\"filled,dashed\"");
    if (n->flags & QN_NODE_output) qn__str_puts(out, ", penwidth=3");
    if (n->flags & QN_NODE_mutable) qn__str_puts(out, ", peripheries=2");
    qn__str_puts(out, "];\n");
}

/* Nodes of the shown layers, each layer in its cluster, which may be opened again for a straggler. */
static void put_nodes(const qn_graph *g, const qn_print_options *o, double most, qn_str *out)
{
    int open = -1;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (!qn__print_shows(o, n)) continue;
        const int layer = qn__op_info(n->op)->kind == QN_KIND_leaf ? -1 : n->layer;
        if (layer != open && open >= 0) qn__str_puts(out, "  }\n");
        if (layer != open && layer >= 0) {
            qn__str_printf(out, "  subgraph cluster_%d { label=\"layer %d\"; color=\"#999999\";\n", layer, layer);
        }
        open = layer;
        put_node(o, n, false, most, out);
    }
    if (open >= 0) qn__str_puts(out, "  }\n");
}

qn_status qn__print_dot(const qn_graph *g, const qn_print_options *o, qn_str *out, qn_error *err)
{
    char text[QN_LABEL_TEXT];
    const double most = qn__print_most(g, o);
    bool *outside = qn__calloc((size_t)g->n_nodes, sizeof *outside);
    if (outside == NULL) return QN_FAIL_NOMEM(err, g->n_nodes);
    qn__str_puts(
        out,
        "digraph quern {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"monospace\", fontsize=10];\n");
    if (o->title != NULL) {
        qn__str_puts(out, "  labelloc=t; label=\"");
        put_escaped(out, qn__print_name(o->title, 0, text));
        qn__str_puts(out, "\";\n");
    }
    put_nodes(g, o, most, out);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (!qn__print_shows(o, n)) continue;
        for (int k = 0; k < n->n_src; k++) {
            const qn_node *s = n->src[k];
            if (!qn__print_shows(o, s) && !outside[s->id]) {
                outside[s->id] = true;
                put_node(o, s, true, most, out);
            }
            qn__str_printf(out, "  n%d -> n%d;\n", s->id, n->id);
        }
    }
    qn__str_puts(out, "}\n");
    qn__free(outside);
    return QN_OK;
}
