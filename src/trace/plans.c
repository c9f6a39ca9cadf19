/* SPDX-License-Identifier: MIT */
/* src/trace/plans.c -- reading plans. Every count is compared with the bytes that are left before memory is taken. */
#include "trace/read.h"
#include <string.h>

#define NODE_BYTES 27 /* the least that a node takes */

char *qn__trace_keep_text(qn_trace *t, qn_trace_cursor *c)
{
    size_t n;
    const char *text = qn__trace_get_text(c, &n);
    return qn__arena_strndup(&t->arena, text, n);
}

static uint64_t left(const qn_trace_cursor *c) { return (uint64_t)(c->end - c->p); }

/* Names come again and again: the last few are shared. */
typedef struct words {
    const char *word[32];
    int next;
} words;

static const char *shared_text(qn_trace *t, qn_trace_cursor *c, words *w)
{
    size_t n;
    const char *text = qn__trace_get_text(c, &n);
    for (size_t i = 0; i < sizeof w->word / sizeof w->word[0]; i++)
        if (w->word[i] && strlen(w->word[i]) == n && memcmp(w->word[i], text, n) == 0) return w->word[i];
    const char *kept = qn__arena_strndup(&t->arena, text, n);
    w->word[w->next] = kept;
    w->next = (w->next + 1) % (int)(sizeof w->word / sizeof w->word[0]);
    return kept;
}

static bool read_shape(qn_trace *t, qn_trace_cursor *c, qn_trace_node *n)
{
    n->rank = (int32_t)qn__trace_get_up_to(c, left(c));
    int64_t *shape = qn__arena_array(&t->arena, (size_t)n->rank, sizeof(*shape));
    for (int32_t i = 0; shape && i < n->rank; i++) shape[i] = (int64_t)qn__trace_get_up_to(c, INT64_MAX);
    n->shape = shape;
    return shape != NULL || n->rank == 0;
}

/* Ids of what comes before, or the node itself. */
static int32_t read_back(qn_trace_cursor *c, int32_t id)
{
    const int64_t back = qn__trace_get_signed(c);
    if (back >= 0 && back <= id) return (int32_t)(id - back);
    c->failed = true;
    return 0;
}

static bool read_sources(qn_trace *t, qn_trace_cursor *c, qn_trace_node *n)
{
    n->n_src = (int32_t)qn__trace_get_up_to(c, left(c));
    int32_t *src = qn__arena_array(&t->arena, (size_t)n->n_src, sizeof(*src));
    for (int32_t i = 0; src && i < n->n_src; i++) src[i] = read_back(c, n->id);
    n->src = src;
    return src != NULL || n->n_src == 0;
}

static int32_t read_small(qn_trace_cursor *c, int64_t lo, int64_t hi)
{
    const int64_t x = qn__trace_get_signed(c);
    if (x >= lo && x <= hi) return (int32_t)x;
    c->failed = true;
    return 0;
}

static void read_cost(qn_trace_cursor *c, qn_trace_node_cost *cost)
{
    uint64_t *const wide[] = {&cost->weight_bytes, &cost->cache_bytes, &cost->act_bytes,   &cost->ops,
                              &cost->cell_bytes,   &cost->cell_ops,    &cost->expert_bytes};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) *wide[i] = qn__trace_get(c);
    cost->n_experts = (uint32_t)qn__trace_get_up_to(c, UINT32_MAX);
    cost->n_used = (uint32_t)qn__trace_get_up_to(c, UINT32_MAX);
    cost->sight = (uint32_t)qn__trace_get_up_to(c, UINT32_MAX);
}

static bool read_node(qn_trace *t, qn_trace_cursor *c, qn_trace_plan *plan, qn_trace_node *n, words *w)
{
    n->op = shared_text(t, c, w);
    n->name = qn__trace_keep_text(t, c);
    n->dtype = shared_text(t, c, w);
    n->layer = read_small(c, -1, INT32_MAX);
    n->place = read_small(c, -1, plan->n_places - 1);
    const uint64_t flags = qn__trace_get(c);
    n->flags = (uint32_t)(flags & 7);
    n->computes = (flags & 8) != 0;
    n->shared = (flags & 16) != 0;
    const bool memory = read_shape(t, c, n) && read_sources(t, c, n);
    n->root = read_back(c, n->id);
    n->last_use = read_small(c, 0, plan->n_nodes);
    n->bytes = qn__trace_get(c);
    n->space = (int32_t)qn__trace_get_up_to(c, QN_TRACE_RESIDENT);
    n->file = (int32_t)qn__trace_get_up_to(c, INT32_MAX) - 1;
    n->offset = qn__trace_get(c);
    n->scratch = qn__trace_get(c);
    n->scratch_bytes = qn__trace_get(c);
    read_cost(c, &n->cost);
    return memory && n->op && n->name && n->dtype;
}

static bool read_places(qn_trace *t, qn_trace_cursor *c, qn_trace_plan *plan)
{
    plan->n_places = (int32_t)qn__trace_get_up_to(c, left(c) / 2);
    const char **names = qn__arena_array(&t->arena, (size_t)plan->n_places, sizeof(*names));
    uint64_t *bytes = qn__arena_array(&t->arena, (size_t)plan->n_places, sizeof(*bytes));
    bool ok = (names && bytes) || plan->n_places == 0;
    for (int32_t i = 0; ok && i < plan->n_places; i++) {
        names[i] = qn__trace_keep_text(t, c);
        bytes[i] = qn__trace_get(c);
        ok = names[i] != NULL;
    }
    plan->places = names;
    plan->place_bytes = bytes;
    return ok;
}

qn_trace_found qn__trace_read_plan(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    words w = {{0}, 0};
    (void)b;
    qn_trace_plan *plan = qn__arena_alloc(&t->arena, sizeof(*plan));
    if (!plan) return QN_TRACE_NOMEM;
    plan->id = (uint32_t)qn__trace_get_up_to(c, UINT32_MAX);
    if (!read_places(t, c, plan)) return QN_TRACE_NOMEM;
    plan->n_nodes = (int32_t)qn__trace_get_up_to(c, left(c) / NODE_BYTES);
    if (c->failed) return QN_TRACE_WRONG;
    qn_trace_node *nodes = qn__arena_array(&t->arena, (size_t)plan->n_nodes, sizeof(*nodes));
    if (!nodes && plan->n_nodes > 0) return QN_TRACE_NOMEM;
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        nodes[i].id = i;
        if (!read_node(t, c, plan, &nodes[i], &w)) return QN_TRACE_NOMEM;
        if (c->failed) return QN_TRACE_WRONG;
    }
    plan->nodes = nodes;
    if (c->p != c->end) return QN_TRACE_WRONG;
    qn_trace_plan **at = QN_TRACE_MORE(&t->plans);
    if (!at) return QN_TRACE_NOMEM;
    *at = plan;
    return QN_TRACE_GOOD;
}
