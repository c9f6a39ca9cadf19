/* SPDX-License-Identifier: MIT */
/* src/graph/plan/lend.c -- a write in place is a value and an assign of it to resident memory. Where nothing but the
 * assign reads the value, and nobody reads that memory as it was from the value's node on, the value is computed there,
 * and the assign has nothing to do: no second pass, no buffer in between. */
#include "graph/plan/plan.h"
#include "graph/internal.h"

static bool overlap(const qn_layout *a, const qn_layout *b)
{
    int64_t a0, a1, b0, b1;
    qn_layout_range(a, &a0, &a1);
    qn_layout_range(b, &b0, &b1);
    return a0 < b1 && b0 < a1;
}

/* Between the two nothing runs. */
static bool adjacent(const qn_graph *g, int32_t first, int32_t second)
{
    for (int32_t i = first + 1; i < second; i++) {
        const qn_op_kind kind = qn__op_info(g->nodes[i]->op)->kind;
        if (kind != QN_KIND_leaf && kind != QN_KIND_view) return false;
    }
    return true;
}

/* May y be written while it reads its sources? Of that memory only source 0 may be, element for element. */
static bool reads_allow(const qn_node *y, const qn_node *dst)
{
    for (int k = 0; k < y->n_src; k++) {
        const qn_node *x = y->src[k];
        if (x->root != dst->root || !overlap(&x->layout, &dst->layout)) continue;
        if (k > 0 || !qn__op_info(y->op)->inplace || x->dtype != y->dtype || !qn__layout_same(&x->layout, &dst->layout))
            return false;
    }
    return true;
}

/* A node that can end the run leaves memory as it was. */
static bool can_lend(const qn_graph *g, const qn_node *u, const int32_t *last)
{
    const qn_node *dst = u->src[0], *y = u->src[1];
    qn_layout flat = dst->layout;
    flat.offset = 0;
    return y->root == y && qn__op_info(y->op)->kind == QN_KIND_compute &&
           !(y->flags & (QN_NODE_output | QN_NODE_bound)) && !y->one_last && !u->one_last && last[y->id] == u->id &&
           y->dtype == dst->dtype && y->place == dst->root->place && qn__row_major(&flat) && !qn__may_stop(y) &&
           adjacent(g, y->id, u->id) && reads_allow(y, dst);
}

void qn__plan_lend(qn_graph *g, const int32_t *last, qn_plan *plan)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *u = g->nodes[i];
        if (u->op != QN_OP_assign || !can_lend(g, u, last)) continue;
        qn_node *y = u->src[1], *param = u->root;
        y->flags |= QN_NODE_bound;
        y->lender = param;
        y->lent = param->lent;
        param->lent = y;
        y->offset = (uint64_t)(u->src[0]->layout.offset / qn_dtype_get(y->dtype)->block_elems *
                               qn_dtype_get(y->dtype)->block_bytes);
        plan->n_inplace++;
    }
}
