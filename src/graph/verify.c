/* SPDX-License-Identifier: MIT */
/* src/graph/verify.c -- is this list of nodes a graph? Order, arities, rules again, whose memory is whose, and that
 * nobody reads a resident tensor as it was before an update. Linear in the size of the graph but for the last part,
 * which walks the updates of one tensor that came after the version being read: none in a graph that reads through
 * results. */
#include "graph/internal.h"
#include <stdlib.h>
#include <string.h>

typedef struct checker {
    const qn_graph *g;
    int32_t *last; /* by id of a root: its latest update so far, -1 none */
    int32_t *prev; /* by id of an update: the update of the same root before it, -1 none */
} checker;

#define TEXT(n) qn__node_text((n), (char[QN_NODE_TEXT]){0})

/* ---- one node ---- */

static qn_status check_edges(const qn_graph *g, const qn_node *n, qn_error *err)
{
    const qn_op_info *info = qn__op_info(n->op);
    if (n->n_src < info->min_src || n->n_src > info->max_src) {
        return QN_FAIL(err, invalid, "%s has %d sources, %d to %d expected", TEXT(n), n->n_src, info->min_src,
                       info->max_src);
    }
    for (int k = 0; k < QN_MAX_SRC; k++) {
        const qn_node *s = n->src[k];
        if (k >= n->n_src) {
            if (s != NULL) return QN_FAIL(err, invalid, "%s has something past its %d sources", TEXT(n), n->n_src);
            continue;
        }
        if (s == NULL) return QN_FAIL(err, invalid, "%s: source %d is missing", TEXT(n), k);
        if (s->flags & QN_NODE_dead)
            return QN_FAIL(err, invalid, "%s: source %d, %s, was removed", TEXT(n), k, TEXT(s));
        if (s->id < 0 || s->id >= g->n_nodes || g->nodes[s->id] != s) {
            return QN_FAIL(err, invalid, "%s: source %d is not in the graph", TEXT(n), k);
        }
        if (s->id >= n->id) return QN_FAIL(err, invalid, "%s comes before its source %d, %s", TEXT(n), k, TEXT(s));
    }
    return QN_OK;
}

static qn_status check_memory(qn_node *n, qn_error *err)
{
    const uint32_t both = QN_NODE_mutable | QN_NODE_const;
    if (n->root != qn__root_of(n)) return QN_FAIL(err, invalid, "%s lies in the wrong memory", TEXT(n));
    if ((n->flags & both) != 0 && n->op != QN_OP_param) {
        return QN_FAIL(err, invalid, "%s is no param, but mutable or const", TEXT(n));
    }
    if ((n->flags & both) == both) return QN_FAIL(err, invalid, "%s is mutable and const", TEXT(n));
    if ((n->flags & QN_NODE_const) && n->host == NULL)
        return QN_FAIL(err, invalid, "%s is const without its bytes", TEXT(n));
    return QN_OK;
}

static qn_status check_rule(const qn_node *n, qn_error *err)
{
    qn_node again = *n;
    const qn_status status = qn__op_info(n->op)->rule(&again, err);
    if (status != QN_OK) return qn__prefix(err, status, "%s", TEXT(n));
    if (again.dtype != n->dtype || !qn__layout_same(&again.layout, &n->layout)) {
        char have[QN_SHAPE_TEXT], want[QN_SHAPE_TEXT];
        return QN_FAIL(err, invalid, "%s is %s %s, its op gives %s %s", TEXT(n), qn_dtype_get(n->dtype)->name,
                       qn__layout_print(&n->layout, have), qn_dtype_get(again.dtype)->name,
                       qn__layout_print(&again.layout, want));
    }
    return QN_OK;
}

static qn_status check_node(const qn_graph *g, int32_t i, qn_error *err)
{
    qn_node *n = g->nodes[i];
    if (n == NULL || n->id != i)
        return QN_FAIL(err, invalid, "node %d of the list has the id %d", i, n != NULL ? n->id : -1);
    if ((unsigned)n->op >= QN_OP_COUNT)
        return QN_FAIL(err, invalid, "%%%d has op %d, which does not exist", i, (int)n->op);
    if (n->attrs == NULL || n->name == NULL) return QN_FAIL(err, invalid, "%%%d lacks attributes or a name", i);
    QN_TRY(check_edges(g, n, err));
    QN_TRY(check_memory(n, err));
    return check_rule(n, err);
}

/* ---- updates ---- */

/* The update through which this value of a resident tensor is seen; -1 for the tensor as the run began. */
static int32_t version_of(const qn_node *n)
{
    while (qn__node_is_view(n)) n = n->src[0];
    return qn__op_info(n->op)->kind == QN_KIND_update ? n->id : -1;
}

static bool overlap(const qn_node *a, const qn_node *b)
{
    int64_t a0, a1, b0, b1;
    qn_layout_range(&a->layout, &a0, &a1);
    qn_layout_range(&b->layout, &b0, &b1);
    return a0 < b1 && b0 < a1;
}

/* What value `s` shows must still be there: no later update touched it. */
static qn_status check_read(const checker *c, const qn_node *s, const qn_node *reader, qn_error *err)
{
    if (!qn__is_param(s->root, QN_NODE_mutable)) return QN_OK;
    const int32_t version = version_of(s);
    for (int32_t u = c->last[s->root->id]; u > version; u = c->prev[u]) {
        const qn_node *update = c->g->nodes[u];
        if (!overlap(s, update)) continue;
        if (reader == NULL) return QN_FAIL(err, invalid, "output %s is changed by the later %s", TEXT(s), TEXT(update));
        return QN_FAIL(err, invalid, "%s reads %s as it was before %s; read the update's result, or read earlier",
                       TEXT(reader), TEXT(s->root), TEXT(update));
    }
    return QN_OK;
}

static qn_status check_updates(const checker *c, qn_error *err)
{
    for (int32_t i = 0; i < c->g->n_nodes; i++) {
        const qn_node *n = c->g->nodes[i];
        const qn_op_kind kind = qn__op_info(n->op)->kind;
        if ((n->flags & QN_NODE_dead) || kind == QN_KIND_view) continue;
        for (int k = 0; k < n->n_src; k++) QN_TRY(check_read(c, n->src[k], n, err));
        if (kind != QN_KIND_update) continue;
        for (int k = 1; k < n->n_src; k++) {
            if (n->src[k]->root == n->root && overlap(n->src[k], n)) {
                return QN_FAIL(err, invalid, "%s reads the memory that it writes through source %d; copy that first",
                               TEXT(n), k);
            }
        }
        c->prev[i] = c->last[n->root->id];
        c->last[n->root->id] = i;
    }
    for (int32_t i = 0; i < c->g->n_nodes; i++) {
        const qn_node *n = c->g->nodes[i];
        if ((n->flags & (QN_NODE_dead | QN_NODE_output)) == QN_NODE_output) QN_TRY(check_read(c, n, NULL, err));
    }
    return QN_OK;
}

/* ---- two params over one memory ---- */

static int by_address(const void *a, const void *b)
{
    const qn_node *x = *(qn_node *const *)a, *y = *(qn_node *const *)b;
    if (x->buffer != y->buffer) return (uintptr_t)x->buffer < (uintptr_t)y->buffer ? -1 : 1;
    if (x->buffer_offset != y->buffer_offset) return x->buffer_offset < y->buffer_offset ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* An update of one would be a hidden update of the other. `params` has room for every node. */
static qn_status check_overlaps(const qn_graph *g, qn_node **params, qn_error *err)
{
    int32_t n = 0, n_mutable = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *p = g->nodes[i];
        if (p->op != QN_OP_param || p->buffer == NULL || (p->flags & QN_NODE_dead) || qn__node_bytes(p) == 0) continue;
        n_mutable += (p->flags & QN_NODE_mutable) != 0;
        params[n++] = p;
    }
    if (n_mutable == 0) return QN_OK;
    qsort(params, (size_t)n, sizeof *params, by_address);
    const qn_node *any = NULL, *written = NULL; /* those that reach furthest in this buffer */
    uint64_t any_end = 0, written_end = 0;
    for (int32_t i = 0; i < n; i++) {
        const qn_node *p = params[i];
        const bool is_mutable = (p->flags & QN_NODE_mutable) != 0;
        uint64_t end;
        if (__builtin_add_overflow(p->buffer_offset, (uint64_t)qn__node_bytes(p), &end)) {
            return QN_FAIL(err, invalid, "%s lies at %llu, beyond any buffer", TEXT(p),
                           (unsigned long long)p->buffer_offset);
        }
        if (i == 0 || p->buffer != params[i - 1]->buffer) any_end = written_end = 0;
        if (p->buffer_offset < (is_mutable ? any_end : written_end)) {
            return QN_FAIL(err, invalid, "%s and %s are params over the same memory, and one is mutable",
                           TEXT(is_mutable ? any : written), TEXT(p));
        }
        if (end > any_end) any = p, any_end = end;
        if (is_mutable && end > written_end) written = p, written_end = end;
    }
    return QN_OK;
}

qn_status qn__graph_verify(const qn_graph *g, qn_error *err)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i] != NULL && (g->nodes[i]->flags & QN_NODE_dead)) continue;
        QN_TRY(check_node(g, i, err));
    }
    const size_t n = (size_t)g->n_nodes, bytes = n * (sizeof(qn_node *) + 2 * sizeof(int32_t));
    qn_node **params = qn__alloc(bytes);
    if (params == NULL) return QN_FAIL_NOMEM(err, bytes);
    const checker c = {.g = g, .last = (int32_t *)(params + n), .prev = (int32_t *)(params + n) + n};
    memset(c.last, 0xff, 2 * n * sizeof(int32_t));
    qn_status status = check_overlaps(g, params, err);
    if (status == QN_OK) status = check_updates(&c, err);
    qn__free(params);
    return status;
}
