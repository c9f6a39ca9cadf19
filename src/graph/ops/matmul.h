/* SPDX-License-Identifier: MIT */
/* src/graph/ops/matmul.h -- the general product of matrices: attributes and builders. Included by graph.h. */
#ifndef QN_GRAPH_OPS_MATMUL_H
#define QN_GRAPH_OPS_MATMUL_H

#include "graph/graph.h"

typedef struct qn_matmul_attrs {
    double alpha, beta;
} qn_matmul_attrs;

/* matmul with PyTorch's rules: vectors are rows (a) or columns (b), leading dimensions broadcast. Both of one dtype,
 * real or integer; any strides: a transposed operand is a view. */
qn_node *qn__matmul(qn_graph *g, qn_node *a, qn_node *b);

#endif
