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

/* Products with the experts that ids names, in a mixture of experts; with ids that are numbers of heads, products of
 * each head with a matrix of its own.
 *   x    F32 [n, k], or [n, u, k]: a row for each of a token's experts    w [e, m, k], any type of weights
 *   ids  I32 or I64 [n, u]; one that is out of range gives zeros          b F32 [e, m] or NULL
 * -> [n, u, m] f32. Each row is to the bit what qn__linear gives for it and its expert. */
qn_node *qn__linear_experts(qn_graph *g, qn_node *x, qn_node *w, qn_node *ids, qn_node *b);

#endif
