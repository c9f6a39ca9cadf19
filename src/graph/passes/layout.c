/* SPDX-License-Identifier: MIT */
/* src/graph/passes/layout.c -- a view of a view becomes a view of what is under both (layouts already count from the
 * root's memory, so chains of permutes and reshapes collapse with it); a view that changes nothing goes, and so does a
 * copy of values that are row-major in the same dtype already. */
#include "graph/passes/passes.h"

static void merge_views(qn_pass_ctx *ctx, qn_node *n)
{
    qn_node *under = n->src[0];
    while (qn__node_is_view(under)) under = under->src[0]; /* one step: the views before this one are merged */
    if (under == n->src[0]) return;
    n->src[0] = under;
    ctx->changed++;
}

static bool copy_changes_nothing(const qn_pass_ctx *ctx, const qn_node *n)
{
    const qn_node *x = n->src[0];
    return n->op == QN_OP_copy && n->dtype == x->dtype && n->hint == x->hint && qn__row_major(&x->layout) &&
           qn__pass_may_read_later(ctx, x, n->id);
}

qn_status qn__pass_layout(qn_pass_ctx *ctx, qn_error *err)
{
    for (int32_t i = 0; i < ctx->g->n_nodes; i++) {
        qn_node *n = ctx->g->nodes[i];
        QN_TRY(qn__pass_resolve(ctx, n, err));
        if (qn__node_is_view(n)) merge_views(ctx, n);
        if (n->flags & QN_NODE_output) continue;
        const bool idle_view = qn__node_is_view(n) && qn__layout_same(&n->layout, &n->src[0]->layout);
        if (idle_view || copy_changes_nothing(ctx, n)) qn__pass_replace(ctx, n, n->src[0]);
    }
    return QN_OK;
}
