/* SPDX-License-Identifier: MIT */
/* src/backend/together.c -- nodes that a backend computes as one. First those of a kind whose sources are there, such
 * as the products for queries, keys and values, are brought behind the first of them, as far as they stand in the same
 * part of the graph; nothing that they read changes in between. Then the backend says how many of what follows it takes
 * together. */
#include "backend/internal.h"

#include <string.h>

#include "base/mem.h"

enum {
    AHEAD = 48
}; /* nodes of the order that are looked through for more of a kind: a layer's attention has some 30 */

typedef struct order {
    qn_sched *s;
    qn_graph *g;
    qn_node **old, **now; /* [n_nodes] */
    int32_t n_now;
    bool *listed; /* [n_nodes] by id */
} order;

static bool gathers(const qn_sched *s, const qn_node *n)
{
    static const bool kinds[QN_OP_COUNT] = {
        [QN_OP_linear] = true, [QN_OP_linear_experts] = true, [QN_OP_rms_norm] = true, [QN_OP_rope_apply] = true};
    return kinds[n->op] && n->place >= 0 && s->backends[n->place]->type->together;
}

/* What never changes, or was computed by now: of memory that updates write, the state that is read might be another. */
static bool is_there(const order *o, const qn_node *x)
{
    const qn_node *root = x->root;
    if (root->op == QN_OP_param || root->op == QN_OP_input) return !(root->flags & QN_NODE_mutable);
    return o->listed[root->id];
}

static void list(order *o, qn_node *n)
{
    if (o->listed[n->id]) return;
    o->listed[n->id] = true;
    for (int i = 0; i < n->n_src; i++) { /* leaves and views, which may stand behind */
        const qn_op_kind kind = qn__op_info(n->src[i]->op)->kind;
        if (kind == QN_KIND_leaf || kind == QN_KIND_view) list(o, n->src[i]);
    }
    o->now[o->n_now++] = n;
}

static bool may_come(const order *o, const qn_node *n, const qn_node *first)
{
    if (o->listed[n->id] || n->op != first->op || (n->flags & (QN_NODE_output | QN_NODE_bound))) return false;
    if ((n->op == QN_OP_linear || n->op == QN_OP_linear_experts) && n->src[0] != first->src[0]) return false;
    for (int i = 0; i < n->n_src; i++)
        if (!is_there(o, n->src[i])) return false;
    return true;
}

static void list_kind(order *o, int32_t at)
{
    qn_node *first = o->old[at];
    list(o, first);
    if (!gathers(o->s, first)) return;
    for (int32_t i = at + 1; i < o->g->n_nodes && i <= at + AHEAD; i++) {
        qn_node *n = o->old[i];
        if (n->op == QN_OP_transfer || (qn__computes(n) && n->place != first->place)) return;
        if (may_come(o, n, first)) list(o, n);
    }
}

/* Runs of nodes of one place, without leaves and views: those behind the first that is not yet in a run. */
static void mark(order *o, qn_node **work, int32_t n)
{
    for (int32_t i = 0, count; i < n; i += count) {
        const qn_backend *be = o->s->backends[work[i]->place];
        count = be->type->together ? be->type->together(be, work + i, n - i) : 1;
        QN_ASSERT(count >= 1 && count <= n - i);
        for (int32_t k = 0; k < count && count > 1; k++) {
            work[i + k]->one_first = work[i];
            work[i + k]->one_last = work[i + count - 1];
        }
    }
}

static void mark_all(order *o)
{
    qn_node **work = o->old; /* no longer needed */
    int32_t n = 0;
    for (int32_t i = 0; i < o->g->n_nodes; i++) {
        qn_node *node = o->g->nodes[i];
        const bool computes = qn__computes(node);
        if (n > 0 && (node->op == QN_OP_transfer || (computes && work[0]->place != node->place))) {
            mark(o, work, n);
            n = 0;
        }
        if (computes) work[n++] = node;
    }
    if (n > 0) mark(o, work, n);
}

qn_status qn__bring_together(qn_sched *s, qn_graph *g, qn_error *err)
{
    const size_t n = (size_t)g->n_nodes;
    bool any = false;
    for (int i = 0; i < s->n_backends; i++) any |= s->backends[i]->type->together != NULL;
    if (!any || n == 0) return QN_OK;
    order o = {.s = s, .g = g};
    const size_t bytes = 2 * n * sizeof(*o.old) + n * sizeof(*o.listed);
    o.old = qn__alloc(bytes);
    if (!o.old) return QN_FAIL_NOMEM(err, bytes);
    o.now = o.old + n;
    o.listed = (bool *)(o.now + n);
    memcpy(o.old, g->nodes, n * sizeof(*o.old));
    memset(o.listed, 0, n * sizeof(*o.listed));
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (!o.listed[o.old[i]->id]) list_kind(&o, i);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        g->nodes[i] = o.now[i];
        g->nodes[i]->id = i;
    }
    mark_all(&o);
    qn__free(o.old);
    return QN_OK;
}
