/* SPDX-License-Identifier: MIT */
/* src/graph/ops/reduce.h -- reductions over any set of dimensions, and scans and softmax along one: attributes and
 * builders. Included by graph.h.
 *
 * The order in which numbers are added is that of the reduced elements, row-major, in blocks of a fixed size: it
 * depends on the shape, not on strides, threads or the other elements. NaN wins in amax, amin, argmax and argmin, and
 * of equals the first. */
#ifndef QN_GRAPH_OPS_REDUCE_H
#define QN_GRAPH_OPS_REDUCE_H

#include "graph/graph.h"

typedef struct qn_reduce_attrs {
    uint32_t dims; /* bit d: dimension d goes; a scalar has the imaginary dimension 0 */
    int32_t keep;  /* reduced dimensions stay, of size 1 */
    double value;  /* var and std: the correction; norm: p */
} qn_reduce_attrs;
typedef struct qn_along_attrs {
    int32_t dim;
} qn_along_attrs;

/* Any of sum prod mean amax amin argmax argmin any all logsumexp count_nonzero (value 0), var, std (value: the
 * correction) and norm (value: p). dims NULL: all; else n_dims of them, negative ones from the end. */
qn_node *qn__reduce(qn_graph *g, qn_op op, qn_node *x, const int *dims, int n_dims, bool keep, double value);
/* softmax, log_softmax, cumsum, cumprod */
qn_node *qn__along(qn_graph *g, qn_op op, qn_node *x, int dim);

#endif
