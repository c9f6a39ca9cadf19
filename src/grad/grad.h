/* SPDX-License-Identifier: MIT */
/* src/grad/grad.h -- the gradient of each operation, as graph -> graph: one row of grads.def, one function.
 *
 * A function gets the gradient dy of the result, the values that its row keeps, and appends nodes that compute the
 * gradients of those sources that are wanted. Builders are sticky, so it needs no checks. Its nodes are ordinary nodes:
 * forward and backward are one graph, go through the same passes and are compiled together. Gradients have the dtype
 * and the shape of what they are gradients of. */
#ifndef QN_GRAD_GRAD_H
#define QN_GRAD_GRAD_H

#include "graph/graph.h"

/* What of the forward run the gradient of a source needs. Only for sources whose gradient is wanted is it kept: less is
 * less memory. */
enum {
    QN_KEEP_none = 0,
    QN_KEEP_a = 1,
    QN_KEEP_b = 2,
    QN_KEEP_ab = 3,
    QN_KEEP_c = 4,
    QN_KEEP_ac = 5,
    QN_KEEP_bc = 6,
    QN_KEEP_abc = 7,
    QN_KEEP_d = 8,
    QN_KEEP_abcd = 15,
    QN_KEEP_src = 63,
    QN_KEEP_y = 64,
    QN_KEEP_ay = 65,
    QN_KEEP_aby = 67,
    QN_KEEP_all = 127,
    /* y is kept for parts of it that the program never sees: a write to what it sees has to leave them alone */
    QN_KEEP_own = 128,
    QN_KEEP_abcy_own = 199,
    QN_KEEP_all_own = 255
};

typedef struct qn_grad_task {
    qn_graph *g;
    qn_op op;
    const void *attrs; /* of the op */
    int n_src;
    qn_node *src[QN_MAX_SRC];   /* NULL where the row keeps them for no source that is wanted */
    qn_shape shape[QN_MAX_SRC]; /* of all sources */
    qn_dtype dtype[QN_MAX_SRC];
    bool wanted[QN_MAX_SRC];
    qn_node *y;  /* NULL when the row does not keep it */
    qn_node *dy; /* of the result's shape and dtype */
    qn_shape y_shape;
    qn_node *dx[QN_MAX_SRC]; /* filled in by the function; NULL: the gradient is zero */
} qn_grad_task;

typedef struct qn_grad_row {
    void (*fn)(qn_grad_task *t); /* NULL: the op has no gradient */
    uint8_t keeps[3];            /* for the first, the second, any later source */
} qn_grad_row;
/* fn is NULL for an op without a row. */
const qn_grad_row *qn__grad_row(qn_op op);

/* ---- what the functions share ---- */
/* x summed over whatever broadcasting had stretched `shape` by, so that the result has that shape; x itself when it
 * has. */
qn_node *qn__grad_sum_to(qn_graph *g, qn_node *x, const qn_shape *shape);
qn_node *qn__grad_expand(qn_graph *g, qn_node *x, const qn_shape *shape); /* a view, stride 0 */
qn_node *qn__grad_transpose(qn_graph *g, qn_node *x, int dim0, int dim1); /* a view; dimensions may be negative */
qn_node *qn__grad_dense(qn_graph *g, qn_node *x);                         /* x, or a row-major copy */
/* a view, of a copy when strides forbid it */
qn_node *qn__grad_reshape(qn_graph *g, qn_node *x, const qn_shape *shape);
qn_node *qn__grad_flip(qn_graph *g, qn_node *x, int dim); /* a view */

#endif
