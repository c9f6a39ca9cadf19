/* SPDX-License-Identifier: MIT */
/* src/graph/ops/layers.h -- layers and losses whose gradients are operations too, for training: attributes and
 * builders. Included by graph.h. rms_norm, swiglu and rope are with graph.h's; F32 and F64.
 *
 * An operation has one result. Where a gradient has several parts, they lie one behind the other in it, and users take
 * views. */
#ifndef QN_GRAPH_OPS_LAYERS_H
#define QN_GRAPH_OPS_LAYERS_H

#include "graph/graph.h"

typedef struct qn_layer_norm_attrs {
    double eps;
} qn_layer_norm_attrs;

/* Which gradients of a norm are wanted, in the order in which they lie. */
enum { QN_NORM_x = 1, QN_NORM_w = 2, QN_NORM_b = 4 };
typedef struct qn_norm_back_attrs {
    double eps;
    int32_t centred; /* layer_norm; else rms_norm */
    int32_t wanted;  /* bits of QN_NORM */
} qn_norm_back_attrs;

typedef struct qn_rope_table_attrs {
    qn_rope_attrs rope;
    int32_t dtype;
} qn_rope_table_attrs;
typedef struct qn_rope_apply_attrs {
    int32_t mode, n_rot; /* qn_rope_mode; only the first n_rot of a head's elements are rotated */
    int32_t heads_first; /* x is [..,heads,n,d] */
    int32_t back;        /* by the negative angle */
} qn_rope_apply_attrs;

typedef struct qn_softmax_back_attrs {
    int32_t log;
} qn_softmax_back_attrs; /* of log_softmax */

typedef enum qn_reduce_losses { QN_LOSSES_mean, QN_LOSSES_sum, QN_LOSSES_none } qn_reduce_losses;
typedef struct qn_cross_entropy_attrs {
    int64_t ignore;    /* rows with that id count nothing */
    double smoothing;  /* that share of a target goes to all classes evenly */
    int32_t reduction; /* qn_reduce_losses */
    int32_t strict;    /* qn_strict: an id that is no class is told of; else it gives NaN */
} qn_cross_entropy_attrs;

/* The gradient of softmax, or log_softmax, over the last dimension, from dy and the result y. */
qn_node *qn__softmax_back(qn_graph *g, qn_node *dy, qn_node *y, bool log);
/* The gradient of cumprod over the last dimension, from dy and the source x. */
qn_node *qn__cumprod_back(qn_graph *g, qn_node *dy, qn_node *x);
/* x [..,n], w [n] or NULL, b [n] or NULL; b only with w */
qn_node *qn__layer_norm(qn_graph *g, qn_node *x, qn_node *w, qn_node *b, double eps);
/* dy and x of one shape, w as it was, NULL for none. One part wanted: a value of its shape; several: a vector of all.
 */
qn_node *qn__norm_back(qn_graph *g, qn_node *dy, qn_node *x, qn_node *w, const qn_norm_back_attrs *attrs);
/* -> [2, shape of gate]: for gate, for up */
qn_node *qn__swiglu_back(qn_graph *g, qn_node *dy, qn_node *gate, qn_node *up);
/* pos I32 or I64 of any shape, with four numbers [..,4], factors F32 [n_rot / 2] or NULL -> [.., n_rot] */
qn_node *qn__rope_table(qn_graph *g, qn_node *pos, qn_node *factors, const qn_rope_table_attrs *attrs);
/* x's tokens, counted over all dimensions but heads and d, take the rows of the table over and over. */
qn_node *qn__rope_apply(qn_graph *g, qn_node *x, qn_node *table, const qn_rope_apply_attrs *attrs);
/* logits [n,m], ids I32 or I64 [n], weight [m] or NULL -> [1 + n] or, for losses unreduced, [2 n]. A row's loss is
 *     -(1 - smoothing) weight[id] log p[id] - smoothing / m * sum of weight[c] log p[c]
 * and the mean divides their sum by the sum of weight[id]. */
qn_node *qn__cross_entropy(qn_graph *g, qn_node *logits, qn_node *ids, qn_node *weight,
                           const qn_cross_entropy_attrs *attrs);
/* y: what cross_entropy gave; dy: the gradient to it */
qn_node *qn__cross_entropy_back(qn_graph *g, qn_node *logits, qn_node *ids, qn_node *y, qn_node *dy, qn_node *weight,
                                const qn_cross_entropy_attrs *attrs);

#endif
