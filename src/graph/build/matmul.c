/* SPDX-License-Identifier: MIT */
/* src/graph/build/matmul.c -- builders of products: vectors become matrices by views. */
#include "graph/rules/rules.h"

static bool usable(const qn_graph *g, const qn_node *n) { return g->error.status == QN_OK && n != NULL; }

static qn_node *reshape(qn_graph *g, qn_node *x, const int64_t *dim, int rank)
{
    qn_shape s = {.rank = rank};
    for (int i = 0; i < rank; i++) s.dim[i] = dim[i];
    return qn__reshape(g, x, s);
}

qn_node *qn__matmul(qn_graph *g, qn_node *a, qn_node *b)
{
    const qn_matmul_attrs attrs = {.alpha = 1, .beta = 0};
    if (!usable(g, a) || !usable(g, b)) return qn__op(g, QN_OP_matmul, &attrs, (qn_node *[]){a, b}, 2);
    const int ra = a->layout.rank, rb = b->layout.rank;
    if (ra < 1 || rb < 1) {
        qn_error e = {0};
        (void)QN_FAIL(&e, invalid, "matmul: %s x %s: at least 1 dimension expected", SHAPE(a), SHAPE(b));
        return qn__stick(g, &e);
    }
    if (a->layout.dim[ra - 1] != b->layout.dim[rb > 1 ? rb - 2 : 0]) { /* before views change what the message shows */
        qn_error e = {0};
        (void)QN_FAIL(&e, invalid, "matmul: %s x %s: inner sizes %lld and %lld differ", SHAPE(a), SHAPE(b),
                      (long long)a->layout.dim[ra - 1], (long long)b->layout.dim[rb > 1 ? rb - 2 : 0]);
        return qn__stick(g, &e);
    }
    if (ra == 1) a = reshape(g, a, (int64_t[]){1, a->layout.dim[0]}, 2);
    if (rb == 1) b = reshape(g, b, (int64_t[]){b->layout.dim[0], 1}, 2);
    qn_node *y = qn__op(g, QN_OP_matmul, &attrs, (qn_node *[]){a, b}, 2);
    if (!usable(g, y) || (ra > 1 && rb > 1)) return y;
    int64_t dim[QN_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < y->layout.rank; i++) {
        const bool row = i == y->layout.rank - 2, col = i == y->layout.rank - 1;
        if ((row && ra == 1) || (col && rb == 1)) continue;
        dim[rank++] = y->layout.dim[i];
    }
    return reshape(g, y, dim, rank);
}

qn_node *qn__linear_experts(qn_graph *g, qn_node *x, qn_node *w, qn_node *ids, qn_node *b)
{
    const qn_strict_attrs attrs = {.strict = QN_STRICT_not};
    return qn__op(g, QN_OP_linear_experts, &attrs, (qn_node *[]){x, w, ids, b}, b ? 4 : 3);
}
