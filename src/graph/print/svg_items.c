/* SPDX-License-Identifier: MIT */
/* src/graph/print/svg_items.c -- what is drawn: ranks by longest path, boxes for computations and views, chips for
 * leaves. A weight or an input is drawn beside every user: lines to one box for all would cover the picture. So is the
 * source of an edge over more than MAX_SPAN ranks. */
#include "graph/print/svg.h"
#include <string.h>

#define MAX_SPAN   16
#define MAX_ITEMS  (1 << 19) /* 32 layers are some 4000; a browser gives up long before this */
#define NAME_CHARS 36

typedef struct collector {
    const qn_graph *g;
    const qn_print_options *o;
    qn_svg *d;
    int32_t *rank; /* by id; only of boxes */
    int32_t *item; /* by id; -1 for what has no box */
} collector;

static bool is_leaf(const qn_node *n) { return qn__op_info(n->op)->kind == QN_KIND_leaf; }
static bool has_box(const collector *c, const qn_node *n) { return qn__print_shows(c->o, n) && !is_leaf(n); }
static bool is_far(const collector *c, const qn_node *s, const qn_node *user)
{
    return !has_box(c, s) || c->rank[user->id] - c->rank[s->id] > MAX_SPAN;
}

/* ---- ranks ---- */

/* Longest path from above; then what has few sources moves down to its users: that shortens more lines than it
 * lengthens. */
static int32_t assign_ranks(const collector *c)
{
    const qn_graph *g = c->g;
    /* borrowed until items exist */
    int32_t highest = 0, *below = c->item, *n_up = c->d->up_at, *n_down = c->d->down_at;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        below[i] = INT32_MAX;
        if (!has_box(c, n)) continue;
        c->rank[i] = 1; /* above it, chips */
        for (int k = 0; k < n->n_src; k++) {
            const int32_t s = n->src[k]->id;
            if (!has_box(c, n->src[k])) continue;
            n_up[i]++;
            n_down[s]++;
            if (c->rank[s] >= c->rank[i]) c->rank[i] = c->rank[s] + 1;
        }
        if (c->rank[i] > highest) highest = c->rank[i];
    }
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) {
        const qn_node *n = g->nodes[i];
        if (!has_box(c, n)) continue;
        if (below[i] != INT32_MAX && n_up[i] <= n_down[i] && below[i] - 1 > c->rank[i]) c->rank[i] = below[i] - 1;
        for (int k = 0; k < n->n_src; k++) {
            int32_t *b = &below[n->src[k]->id];
            if (c->rank[i] < *b) *b = c->rank[i];
        }
    }
    return highest + 1;
}

/* ---- items ---- */

static int32_t count_chars(const char *s)
{
    int32_t n = 0;
    for (; *s != '\0'; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void add_line(qn_svg *d, qn_svg_item *it, const char *text)
{
    const int32_t chars = count_chars(text), width = (it->chip ? 6 * chars + chars / 2 : 7 * chars) + 16;
    it->line[it->n_lines++] = qn__arena_strdup(&d->arena, text);
    if (width > it->width) it->width = width;
}

static qn_status fill_lines(const collector *c, qn_svg_item *it, const qn_node *n, qn_error *err)
{
    char text[QN_LABEL_TEXT], time[QN_TIME_TEXT];
    const qn_op_kind kind = qn__op_info(n->op)->kind;
    qn_str type = {0};
    qn__print_type(n, &type);
    if (!it->chip || n->name[0] == '\0') add_line(c->d, it, qn__op_info(n->op)->name);
    if (n->name[0] != '\0') add_line(c->d, it, qn__print_name(n->name, NAME_CHARS, text));
    if (type.data != NULL) add_line(c->d, it, type.data);
    if (c->o->node_ns != NULL && c->o->node_ns[n->id] >= 0 && !it->chip && kind != QN_KIND_view) {
        add_line(c->d, it, qn__print_time(c->o->node_ns[n->id], time));
    }
    if (c->o->color == QN_GRAPH_COLOR_bytes && !it->chip && kind != QN_KIND_view)
        add_line(c->d, it, qn__print_measure(c->o, qn__print_bytes(c->o, n), time));
    it->height = it->n_lines * (it->chip ? 12 : 14) + 8;
    const bool failed = type.failed || c->d->arena.failed;
    qn__str_deinit(&type);
    return failed ? QN_FAIL(err, nomem, "out of memory: the labels of a picture") : QN_OK;
}

static int32_t new_item(const collector *c, const qn_node *n, bool chip, int32_t rank, qn_error *err)
{
    const int32_t i = c->d->n_items++;
    qn_svg_item *it = &c->d->items[i];
    *it = (qn_svg_item){.node = n, .chip = chip, .rank = rank, .width = 6};
    return n == NULL || fill_lines(c, it, n, err) == QN_OK ? i : -1;
}

static qn_status add_edge(const collector *c, const qn_node *s, const qn_node *user, int src_index, qn_error *err)
{
    qn_svg *d = c->d;
    qn_svg_edge *e = &d->edges[d->n_edges++];
    const int32_t to = c->rank[user->id], from = is_far(c, s, user) ? to - 1 : c->rank[s->id];
    *e = (qn_svg_edge){.first = d->n_route, .src_index = src_index};
    const int32_t start = is_far(c, s, user) ? new_item(c, s, true, from, err) : c->item[s->id];
    if (start < 0) return QN_STATUS_nomem;
    d->route[d->n_route++] = start;
    for (int32_t r = from + 1; r < to; r++) d->route[d->n_route++] = new_item(c, NULL, false, r, err);
    d->route[d->n_route++] = c->item[user->id];
    e->count = d->n_route - e->first;
    return QN_OK;
}

/* How many items and steps of routes there will be. */
static qn_status reserve(const collector *c, qn_error *err)
{
    int64_t items = 0, edges = 0, route = 0;
    for (int32_t i = 0; i < c->g->n_nodes; i++) {
        const qn_node *n = c->g->nodes[i];
        items++;
        for (int k = 0; k < n->n_src && has_box(c, n); k++) {
            const int32_t span = is_far(c, n->src[k], n) ? 1 : c->rank[i] - c->rank[n->src[k]->id];
            items += span;
            route += span + 1;
            edges++;
        }
    }
    if (items > MAX_ITEMS) {
        return QN_FAIL(err, limit, "a picture of %lld shapes, at most %d are drawn; print one layer, or as DOT",
                       (long long)items, MAX_ITEMS);
    }
    qn_svg *d = c->d;
    d->items = qn__arena_array(&d->arena, (size_t)items + 1, sizeof *d->items);
    d->edges = qn__arena_array(&d->arena, (size_t)edges + 1, sizeof *d->edges);
    d->route = qn__arena_array(&d->arena, (size_t)route + 1, sizeof *d->route);
    return d->items != NULL && d->edges != NULL && d->route != NULL
               ? QN_OK
               : QN_FAIL_NOMEM(err, (size_t)items * sizeof *d->items);
}

qn_status qn__svg_collect(const qn_graph *g, const qn_print_options *o, qn_svg *d, qn_error *err)
{
    const size_t n = (size_t)g->n_nodes + 1;
    *d = (qn_svg){0};
    qn__arena_init(&d->arena, 1 << 16);
    collector c = {.g = g, .o = o, .d = d};
    c.rank = qn__arena_array(&d->arena, n, sizeof *c.rank);
    c.item = qn__arena_array(&d->arena, n, sizeof *c.item);
    d->up_at = qn__arena_array(&d->arena, n, sizeof *d->up_at);
    d->down_at = qn__arena_array(&d->arena, n, sizeof *d->down_at);
    if (d->arena.failed) return QN_FAIL_NOMEM(err, n * 4 * sizeof *c.rank);
    d->n_ranks = assign_ranks(&c);
    QN_TRY(reserve(&c, err));
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *node = g->nodes[i];
        c.item[i] = -1;
        if (!has_box(&c, node)) continue;
        c.item[i] = new_item(&c, node, false, c.rank[i], err);
        if (c.item[i] < 0) return QN_STATUS_nomem;
        for (int k = 0; k < node->n_src; k++) QN_TRY(add_edge(&c, node->src[k], node, k, err));
    }
    return QN_OK;
}
