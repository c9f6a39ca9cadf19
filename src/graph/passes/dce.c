/* SPDX-License-Identifier: MIT */
/* src/graph/passes/dce.c -- dead-code elimination: keeps outputs, updates, and whatever these need. */
#include "graph/passes/passes.h"
#include <string.h>

qn_status qn__pass_dce(qn_pass_ctx *ctx, qn_error *err)
{
    (void)err;
    qn_graph *g = ctx->g;
    int32_t *needed = ctx->scratch;
    memset(needed, 0, (size_t)g->n_nodes * sizeof *needed);
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) { /* users come after their sources, so one walk back sees all */
        qn_node *n = g->nodes[i];
        if (!needed[i] && !(n->flags & QN_NODE_output) && qn__op_info(n->op)->kind != QN_KIND_update) {
            qn__pass_remove(ctx, n, NULL);
            continue;
        }
        for (int k = 0; k < n->n_src; k++) needed[n->src[k]->id] = 1;
    }
    return QN_OK;
}
