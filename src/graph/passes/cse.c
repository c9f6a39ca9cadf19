/* SPDX-License-Identifier: MIT */
/* src/graph/passes/cse.c -- common subexpressions: of equal nodes over equal sources the first stays. Also of equal
 * params over the same bytes of the same buffer, unless they are mutable. Updates never merge. Two reads of a resident
 * tensor merge only when no update of it lies between them. */
#include "graph/passes/passes.h"
#include <string.h>

typedef struct table {
    int32_t *slot; /* open addressing: ids, -1 empty */
    uint32_t mask;
    int32_t *epoch; /* by id: the last update, so far, of any memory that the node reads; -1 none */
} table;

static bool mergeable(const qn_node *n)
{
    const qn_op_kind kind = qn__op_info(n->op)->kind;
    if (n->op == QN_OP_param) return n->buffer != NULL && !(n->flags & QN_NODE_mutable);
    return kind == QN_KIND_view || kind == QN_KIND_compute;
}

static uint64_t hash_node(const qn_node *n, int32_t epoch)
{
    const uintptr_t key[4] = {(uintptr_t)n->op, (uintptr_t)(uint32_t)epoch, (uintptr_t)n->buffer,
                              (uintptr_t)n->buffer_offset};
    uint64_t h = qn__hash(QN_HASH_INIT, key, sizeof key);
    h = qn__hash(h, n->src, (size_t)n->n_src * sizeof n->src[0]);
    return qn__hash(h, n->attrs, qn__op_info(n->op)->attrs_bytes);
}

/* The rule makes dtype and layout of op, attributes and sources; leaves have theirs of their own. A hint may send one
 * of two nodes to another backend, whose bits may differ. */
static bool equal(const qn_node *a, const qn_node *b)
{
    return a->op == b->op && a->n_src == b->n_src && a->hint == b->hint && a->dtype == b->dtype &&
           memcmp(a->src, b->src, sizeof a->src) == 0 &&
           memcmp(a->attrs, b->attrs, qn__op_info(a->op)->attrs_bytes) == 0 &&
           qn__layout_same(&a->layout, &b->layout) && a->buffer == b->buffer && a->buffer_offset == b->buffer_offset &&
           a->host == b->host;
}

/* The first node equal to n, or NULL after n has been entered. */
static qn_node *find_or_add(const qn_pass_ctx *ctx, const table *t, const qn_node *n)
{
    uint32_t at = (uint32_t)hash_node(n, t->epoch[n->id]) & t->mask;
    for (; t->slot[at] >= 0; at = (at + 1) & t->mask) {
        qn_node *other = ctx->g->nodes[t->slot[at]];
        if (t->epoch[other->id] == t->epoch[n->id] && equal(other, n)) return other;
    }
    t->slot[at] = n->id;
    return NULL;
}

qn_status qn__pass_cse(qn_pass_ctx *ctx, qn_error *err)
{
    qn_graph *g = ctx->g;
    uint32_t size = 16; /* a power of two, at most two thirds full: ends below 3n + 16 */
    while ((int64_t)size * 2 < (int64_t)g->n_nodes * 3) size *= 2;
    const table t = {.epoch = ctx->scratch, .slot = ctx->scratch + g->n_nodes, .mask = size - 1};
    memset(t.slot, 0xff, size * sizeof *t.slot);

    int32_t *seen = ctx->last_update; /* counted up again on the way, so that it says "so far" */
    memset(seen, 0xff, (size_t)g->n_nodes * sizeof *seen);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        QN_TRY(qn__pass_resolve(ctx, n, err));
        t.epoch[i] = -1;
        for (int k = 0; k < n->n_src; k++) {
            const int32_t u = seen[n->src[k]->root->id];
            if (u > t.epoch[i]) t.epoch[i] = u;
        }
        if (qn__op_info(n->op)->kind == QN_KIND_update) seen[n->root->id] = i;
        if (!mergeable(n)) continue;
        qn_node *first = find_or_add(ctx, &t, n);
        if (first != NULL && !(n->flags & QN_NODE_output)) qn__pass_replace(ctx, n, first);
    }
    return QN_OK;
}
