/* SPDX-License-Identifier: MIT */
/* src/graph/ops/optim.h -- the steps of optimizers, and the sum of squares of many gradients, and what training asks of
 * a graph besides: attributes. Included by graph.h.
 *
 * A step is an update of a parameter, or of the state that goes with it, in place. What changes from step to step
 * (rates, corrections) is not an attribute but an element of `numbers`, F64 [QN_OPTIM_NUMBERS], so that the compiled
 * graph stays. The gradient that a step takes is g' = factor * sign * g + decay * p with factor a 0-d F64 tensor
 * (clipping, loss scaling) and p, when it is a source at all, the parameter. Parameters and their states are dense and
 * F32 or F64; gradients may lie in any way and be of any real dtype of the same width of computation. */
#ifndef QN_GRAPH_OPS_OPTIM_H
#define QN_GRAPH_OPS_OPTIM_H

#include "graph/graph.h"

enum { QN_OPTIM_NUMBERS = 8 };
/* Places in `numbers`. */
enum { QN_OPTIM_sign, QN_OPTIM_decay, QN_SGD_momentum, QN_SGD_share, QN_SGD_rate };
enum { QN_ADAM_beta1 = QN_OPTIM_decay + 1, QN_ADAM_beta2, QN_ADAM_rate, QN_ADAM_root, QN_ADAM_eps, QN_ADAM_keep };

/* The largest state: m, v and the greatest v. */
enum { QN_ADAM_ROWS = 3 };

/* Makes a value that passes know nothing of from one they know: what is computed from it is computed again. */
typedef struct qn_barrier_attrs {
    int32_t serial;
} qn_barrier_attrs; /* unlike that of every other in the graph */
typedef struct qn_sum_squares_attrs {
    int32_t carry;
} qn_sum_squares_attrs; /* source 0 is a sum so far, 0-d F64 */
/* plain: x is the gradient, taken as above; buffered: x is the momentum buffer, taken as it is; nesterov: x is the
 * gradient, and the last source the buffer b. */
typedef enum qn_sgd_mode { QN_SGD_plain, QN_SGD_buffered, QN_SGD_nesterov, QN_SGD_MODES } qn_sgd_mode;
typedef struct qn_sgd_attrs {
    int32_t mode;
} qn_sgd_attrs;

#endif
