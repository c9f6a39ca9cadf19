/* SPDX-License-Identifier: MIT */
/* src/graph/ops/pointwise.h -- operations element by element: attributes and builders. Included by graph.h.
 * Sources broadcast as NumPy's do, may be strided in any way, and have one dtype unless said otherwise: conversions are
 * copy nodes. Sums and products of integers wrap around. NaN goes through maximum, minimum, clamp and relu, as in
 * PyTorch. */
#ifndef QN_GRAPH_OPS_POINTWISE_H
#define QN_GRAPH_OPS_POINTWISE_H

#include "graph/graph.h"

/* A number that integer dtypes read as `whole` and real ones as `value`. */
typedef struct qn_value_attrs {
    double value;
    int64_t whole;
} qn_value_attrs;
/* strict: a value that the op has no result for ends the run (see index.h) */
typedef struct qn_strict_attrs {
    int32_t strict;
} qn_strict_attrs;
typedef struct qn_range_attrs {
    double min, max;
    int32_t strict, pad_; /* on whose behalf */
} qn_range_attrs;
/* infinite where there is no bound; integers round bounds inward, and stop at the ends of the dtype's range */
typedef struct qn_clamp_attrs {
    double min, max;
} qn_clamp_attrs;
typedef struct qn_gelu_attrs {
    int32_t tanh;
} qn_gelu_attrs;
typedef struct qn_softplus_attrs {
    double beta, threshold;
} qn_softplus_attrs; /* 1, 20 */
typedef struct qn_full_attrs {
    int32_t dtype, rank;
    int64_t dim[QN_MAX_RANK];
    double value;
    int64_t whole;
} qn_full_attrs;
typedef struct qn_arange_attrs {
    int32_t dtype, none;
    int64_t n;
    double start, step;
    int64_t whole_start, whole_step;
} qn_arange_attrs;

/* Every op of one or two sources without attributes. */
qn_node *qn__unary(qn_graph *g, qn_op op, qn_node *x);
qn_node *qn__binary(qn_graph *g, qn_op op, qn_node *a, qn_node *b);

qn_node *qn__clamp(qn_graph *g, qn_node *x, double min, double max);
/* The bounds as an integer dtype has them. */
void qn__clamp_bounds(const qn_clamp_attrs *attrs, qn_dtype dtype, int64_t *lo, int64_t *hi);
qn_node *qn__gelu(qn_graph *g, qn_node *x, bool tanh); /* tanh: the approximation; else exact, with erf */
qn_node *qn__elu(qn_graph *g, qn_node *x, double alpha);
qn_node *qn__leaky_relu(qn_graph *g, qn_node *x, double slope);
qn_node *qn__softplus(qn_graph *g, qn_node *x, double beta, double threshold);
qn_node *qn__where(qn_graph *g, qn_node *cond, qn_node *a, qn_node *b); /* cond BOOL */
/* mask BOOL; the result has x's shape */
qn_node *qn__masked_fill(qn_graph *g, qn_node *x, qn_node *mask, qn_value_attrs value);
qn_node *qn__lerp(qn_graph *g, qn_node *a, qn_node *b, qn_node *weight);
qn_node *qn__addcmul(qn_graph *g, qn_node *x, qn_node *a, qn_node *b, qn_value_attrs value);
qn_node *qn__addcdiv(qn_graph *g, qn_node *x, qn_node *a, qn_node *b, qn_value_attrs value);
/* Nodes without sources. */
qn_node *qn__full(qn_graph *g, qn_dtype dtype, const qn_shape *shape, qn_value_attrs value);
qn_node *qn__arange(qn_graph *g, qn_dtype dtype, int64_t n, qn_value_attrs start, qn_value_attrs step);

/* Of a real number, exactly where it is a whole one. */
qn_value_attrs qn__value(double x);
qn_value_attrs qn__value_int(int64_t x);

#endif
