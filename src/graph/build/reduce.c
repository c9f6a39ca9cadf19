/* SPDX-License-Identifier: MIT */
/* src/graph/build/reduce.c -- builders of reductions and scans, see ops_reduce.h. */
#include "graph/rules/rules.h"

static qn_status which_dims(qn_op op, const qn_node *x, const int *dims, int n_dims, uint32_t *out, qn_error *err)
{
    const int rank = x->layout.rank > 0 ? x->layout.rank : 1;
    *out = (1u << rank) - 1;
    if (dims == NULL) return QN_OK;
    *out = 0;
    for (int i = 0; i < n_dims; i++) {
        const int d = dims[i] < 0 ? dims[i] + rank : dims[i];
        const char *name = qn__op_info(op)->name;
        if (d < 0 || d >= rank)
            return QN_FAIL(err, invalid, "%s: dimension %d of %s does not exist", name, dims[i], SHAPE(x));
        if (*out >> d & 1)
            return QN_FAIL(err, invalid, "%s: dimension %d of %s is named twice", name, dims[i], SHAPE(x));
        *out |= 1u << d;
    }
    return QN_OK;
}

qn_node *qn__reduce(qn_graph *g, qn_op op, qn_node *x, const int *dims, int n_dims, bool keep, double value)
{
    qn_reduce_attrs attrs = {.keep = keep, .value = value};
    qn_error e = {0};
    if (g->error.status != QN_OK) return g->bad;
    if (x != NULL && which_dims(op, x, dims, n_dims, &attrs.dims, &e) != QN_OK) return qn__stick(g, &e);
    return qn__op(g, op, &attrs, &x, 1);
}

qn_node *qn__along(qn_graph *g, qn_op op, qn_node *x, int dim)
{
    return qn__op(g, op, &(qn_along_attrs){rule_from_end(g, x, dim)}, &x, 1);
}
