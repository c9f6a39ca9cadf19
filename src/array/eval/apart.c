/* SPDX-License-Identifier: MIT */
/* src/array/eval/apart.c -- when the pending graph cannot run as a whole: a value too large for the memory that there
 * is, a node that no backend takes. Storages whose value cannot be computed are found by halving, and stay aside,
 * pending; the others run without them. So only what depends on such a value fails, each time it is looked at, until
 * its handle ends or there is the memory.
 *
 * A part of the graph that has run is taken out of it: its values are params of what stays behind, its updates views of
 * the memory that they wrote. What stays behind and would read memory as it was before such an update is lost. */
#include "array/array.h"

#include <string.h>

/* ---- which nodes a value takes ---- */

static bool is_update(const qn_node *n) { return qn__op_info(n->op)->kind == QN_KIND_update; }

static void mark_sources(const qn_graph *g, uint8_t *part)
{
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) {
        for (int k = 0; k < g->nodes[i]->n_src && part[i]; k++) part[g->nodes[i]->src[k]->id] = 1;
    }
}

static void mark_needed(const qn_context *ctx, bool aside, uint8_t *part)
{
    memset(part, 0, (size_t)ctx->graph->n_nodes);
    for (const qn_storage *s = ctx->pending; s != NULL; s = s->next) {
        if (s->aside == aside) part[s->value->id] = 1;
    }
    mark_sources(ctx->graph, part);
}

static void lose(qn_storage *s)
{
    s->lost = true;
    s->aside = false;
    s->value = NULL;
    qn__storage_unlist(s);
}

/* The graph's own reference is no handle. */
bool qn__any_aside(qn_context *ctx)
{
    bool any = false;
    for (qn_storage *s = ctx->pending, *next; s != NULL; s = next) {
        next = s->next;
        any |= s->aside;
        if (s->aside && s->refs == (s->leaf != NULL)) lose(s);
    }
    return any;
}

/* ---- finding what cannot run ---- */

typedef struct search {
    qn_context *ctx;
    qn_storage **list; /* all that is pending, oldest first */
    bool *bad;
    int32_t n;
    uint8_t *part;
} search;

/* Can those run which are in [from, to), or with from < 0 all that are not bad? A write that one of them reads happens
 * with it, so what it writes to does not wait. */
static qn_status attempt(search *f, int32_t from, int32_t to, bool only_try, bool *began, qn_error *err)
{
    for (int32_t i = 0; i < f->n; i++) f->list[i]->aside = from < 0 ? f->bad[i] : i < from || i >= to;
    mark_needed(f->ctx, false, f->part);
    for (int32_t i = 0; i < f->n; i++) {
        const qn_node *value = f->list[i]->value;
        if (f->part[value->id] && is_update(value)) f->list[i]->aside = false;
    }
    return qn__flush_part(f->ctx, f->part, only_try, began, err);
}

/* Names the largest value of the part, which memory was wanting for; other messages have their names. */
static void name_largest(const search *f, qn_error *why)
{
    const qn_graph *g = f->ctx->graph;
    const qn_node *most = NULL;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (!f->part[i] || qn__op_info(n->op)->kind != QN_KIND_compute) continue;
        if (most == NULL || qn__node_bytes(n) > qn__node_bytes(most)) most = n;
    }
    if (most == NULL || why->status != QN_STATUS_nomem) return;
    char text[192];
    const qn_shape shape = qn_layout_shape(&most->layout);
    (void)qn__prefix(why, why->status, "%s %s", qn__op_info(most->op)->name, qn_shape_print(&shape, text, sizeof text));
}

/* Finds those in [from, to) that cannot run; the message is about `wanted`, or else about the first. */
static void halve(search *f, int32_t from, int32_t to, const qn_storage *wanted, qn_error *first)
{
    qn_error why = {0};
    bool began;
    if (from >= to || attempt(f, from, to, true, &began, &why) == QN_OK) return;
    if (to - from > 1) {
        const int32_t mid = from + (to - from) / 2;
        halve(f, from, mid, wanted, first);
        halve(f, mid, to, wanted, first);
        return;
    }
    f->bad[from] = true;
    if (first->status != QN_OK && f->list[from] != wanted) return;
    name_largest(f, &why);
    *first = why;
}

static qn_status run_what_can(search *f, const qn_storage *wanted, bool all, qn_error *err)
{
    qn_error why = {0}, first = {0};
    bool began = false, wanted_is_bad = false, some = false;
    for (int32_t i = 0; i < f->n; i++) f->bad[i] = f->list[i]->aside && f->list[i] != wanted && !all;
    qn_status status = attempt(f, -1, 0, false, &began, &why);
    if (began || status == QN_OK) {
        if (status != QN_OK) *err = why;
        return status;
    }
    for (int32_t i = 0, end; i < f->n; i = end + 1) { /* runs of those that are not known */
        for (end = i; end < f->n && !f->bad[end]; end++) {}
        halve(f, i, end, wanted, &first);
    }
    for (int32_t i = 0; i < f->n; i++) {
        f->list[i]->aside = f->bad[i];
        some |= !f->bad[i];
        wanted_is_bad |= f->bad[i] && (all || f->list[i] == wanted);
    }
    why = (qn_error){0};
    status = some ? attempt(f, -1, 0, false, &began, &why) : QN_OK;
    if (status != QN_OK && !began && wanted != NULL && !wanted_is_bad) { /* not together: then the one that is wanted */
        why = (qn_error){0};
        for (int32_t i = 0; i < f->n; i++) f->bad[i] = f->list[i] != wanted;
        status = attempt(f, -1, 0, false, &began, &why);
    }
    if (status != QN_OK) *err = why;
    if (status != QN_OK || !wanted_is_bad) return status;
    *err = first;
    return first.status;
}

qn_status qn__flush_apart(qn_context *ctx, const qn_storage *wanted, bool all, qn_error *err)
{
    search f = {.ctx = ctx};
    for (qn_storage *s = ctx->pending; s != NULL; s = s->next) f.n++;
    const size_t n = (size_t)f.n, bytes = n * (sizeof *f.list + sizeof *f.bad) + (size_t)ctx->graph->n_nodes;
    f.list = qn__alloc(bytes);
    if (f.list == NULL) return QN_FAIL_NOMEM(err, bytes);
    f.bad = (bool *)(f.list + n);
    f.part = (uint8_t *)(f.bad + n);
    int32_t at = 0;
    for (qn_storage *s = ctx->pending; s != NULL; s = s->next) f.list[at++] = s;
    const qn_status status = run_what_can(&f, wanted, all, err);
    qn__free(f.list);
    return status;
}

/* ---- taking out what has run ---- */

typedef struct taken {
    qn_context *ctx;
    const uint8_t *part;
    int32_t *version; /* by id: the update through which a node's memory is seen, -1 as it was before */
    int32_t *last;    /* by id of a root: the last update of it that has run, -1 none */
    uint8_t *stale;   /* by id */
} taken;

/* Does it read memory that is not there any more? */
static void find_stale(taken *t)
{
    const qn_graph *g = t->ctx->graph;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        t->version[i] = is_update(n) ? i : qn__node_is_view(n) ? t->version[n->src[0]->id] : -1;
        t->last[i] = -1;
        if (t->part[i] && is_update(n)) t->last[n->root->id] = i;
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        t->stale[i] = 0;
        for (int k = 0; k < n->n_src; k++) {
            const qn_node *x = n->src[k];
            t->stale[i] |= t->stale[x->id] || (!qn__node_is_view(n) && t->version[x->id] < t->last[x->root->id]);
        }
        if (t->part[i] && is_update(n)) t->stale[i] = 0;
    }
}

/* The value lies in memory: a param. */
static bool become_param(qn_context *ctx, qn_storage *s, qn_node *n)
{
    static const qn_no_attrs none;
    if (!qn__grow_leaves(ctx)) return false;
    n->op = QN_OP_param;
    n->attrs = &none;
    n->n_src = 0;
    memset(n->src, 0, sizeof n->src);
    n->flags = 0;
    ctx->leaves[ctx->n_leaves++] = (qn_leaf){.node = n, .storage = qn__storage_ref(s)};
    s->leaf = n;
    return true;
}

static bool become_view(qn_context *ctx, qn_node *n)
{
    qn_view_attrs *attrs = qn__arena_alloc(&ctx->graph->arena, sizeof *attrs);
    if (attrs == NULL) {
        ctx->graph->arena.failed = false;
        return false;
    }
    attrs->layout = n->layout;
    memset(n->src, 0, sizeof n->src);
    n->op = QN_OP_view;
    n->attrs = attrs;
    n->src[0] = n->root;
    n->n_src = 1;
    return true;
}

/* Values of the part are there now. False when there was no memory to keep the rest. */
static bool take_out(taken *t, int32_t n_outputs)
{
    qn_context *ctx = t->ctx;
    bool good = true;
    for (int32_t i = 0; i < n_outputs; i++) {
        qn_storage *s = ctx->outputs[i];
        s->memory = ctx->output_memory[i];
        s->lost = false;
        t->stale[s->value->id] = 0;
        good = become_param(ctx, s, s->value) && good;
    }
    for (int32_t i = 0; i < ctx->graph->n_nodes; i++) {
        qn_node *n = ctx->graph->nodes[i];
        if (t->part[i] && is_update(n)) good = become_view(ctx, n) && good;
    }
    for (qn_storage *s = ctx->pending, *next; s != NULL; s = next) {
        next = s->next;
        if (s->aside) continue;
        s->value = NULL;
        qn__storage_unlist(s);
    }
    return good;
}

static void prune(qn_context *ctx, uint8_t *needed)
{
    qn_graph *g = ctx->graph;
    int32_t kept = 0, numbers = 0;
    mark_needed(ctx, true, needed);
    for (int32_t i = 0; i < ctx->n_leaves; i++) {
        const qn_leaf leaf = ctx->leaves[i];
        if (needed[leaf.node->id]) {
            const int32_t number = (int32_t)(leaf.offset / QN_NUMBER_BYTES) + 1;
            if (leaf.storage == NULL && number > numbers) numbers = number;
            ctx->leaves[kept++] = leaf;
        } else if (leaf.storage != NULL) {
            leaf.storage->leaf = NULL;
            qn__storage_unref(leaf.storage);
        }
    }
    ctx->n_leaves = kept;
    ctx->n_numbers = numbers;
    for (int32_t i = 1; i < kept; i++) { /* by id, as those that are recorded */
        const qn_leaf leaf = ctx->leaves[i];
        int32_t at = i;
        for (; at > 0 && ctx->leaves[at - 1].node->id > leaf.node->id; at--) ctx->leaves[at] = ctx->leaves[at - 1];
        ctx->leaves[at] = leaf;
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (!needed[i]) g->nodes[i]->flags |= QN_NODE_dead;
    }
    qn__graph_compact(g);
}

void qn__settle_part(qn_context *ctx, const uint8_t *part, int32_t n_outputs)
{
    const size_t n = (size_t)ctx->graph->n_nodes;
    taken t = {.ctx = ctx, .part = part};
    t.version = qn__alloc(n * (2 * sizeof *t.version + 2));
    bool good = t.version != NULL;
    if (good) {
        t.last = t.version + n;
        t.stale = (uint8_t *)(t.last + n);
        find_stale(&t);
        good = take_out(&t, n_outputs);
        for (qn_storage *s = ctx->pending, *next; s != NULL; s = next) {
            next = s->next;
            if (!good || t.stale[s->value->id]) lose(s);
        }
        prune(ctx, t.stale + n);
    } else {
        for (int32_t i = 0; i < n_outputs; i++) ctx->outputs[i]->memory = ctx->output_memory[i];
        qn__lose_aside(ctx);
        qn__discard(ctx);
    }
    qn__free(t.version);
    for (qn_storage *s = ctx->pending; s != NULL; s = s->next) s->value->flags |= QN_NODE_owned;
    ctx->epoch++;
}
