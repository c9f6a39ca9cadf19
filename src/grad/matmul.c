/* SPDX-License-Identifier: MIT */
/* src/grad/matmul.c -- products of matrices. y = x w^T and y = alpha a b + beta c; a batch that one operand lacks is
 * summed over. */
#include "grad/rows.h"

/* dy w. A weight in fewer bits is read as it is; float32 by the faster product of plain matrices. */
static qn_node *through_weight(const qn_grad_task *t, qn_node *dy, qn_node *w)
{
    if (w->dtype == dy->dtype) return qn__matmul(t->g, dy, w);
    if (dy->dtype == QN_DTYPE_F32 && t->shape[1].dim[1] % 16 == 0)
        return qn__linear_input(t->g, qn__grad_dense(t->g, dy), w);
    return qn__matmul(t->g, dy, qn__copy(t->g, w, dy->dtype));
}

/* y = x w^T + b over rows: dx = dy w, dw = dy^T x, db = sum of dy. */
void qn__grad_linear(qn_grad_task *t)
{
    qn_graph *g = t->g;
    const int64_t k = t->shape[1].dim[1], m = t->shape[1].dim[0];
    int64_t rows = 1;
    for (int i = 0; i < t->y_shape.rank - 1; i++) rows *= t->y_shape.dim[i];
    qn_node *dy = qn__grad_reshape(g, t->dy, &qn_shape_of(rows, m));
    if (t->wanted[0]) t->dx[0] = qn__grad_reshape(g, through_weight(t, dy, t->src[1]), &t->shape[0]);
    if (t->wanted[1]) {
        qn_node *x = qn__grad_reshape(g, t->src[0], &qn_shape_of(rows, k));
        t->dx[1] = qn__matmul(g, qn__grad_transpose(g, dy, 0, 1), x);
        if (t->dtype[1] != dy->dtype) t->dx[1] = qn__copy(g, t->dx[1], t->dtype[1]);
    }
    if (t->n_src > 2 && t->wanted[2]) t->dx[2] = qn__grad_sum_to(g, dy, &t->shape[2]);
}

/* alpha x y for operands of at least two dimensions */
static qn_node *product(const qn_grad_task *t, qn_node *x, qn_node *y)
{
    const double alpha = ((const qn_matmul_attrs *)t->attrs)->alpha;
    return qn__op(t->g, QN_OP_matmul, &(qn_matmul_attrs){.alpha = alpha}, (qn_node *[]){x, y}, 2);
}

/* da = alpha dy b^T, db = alpha a^T dy, dc = beta dy */
void qn__grad_matmul(qn_grad_task *t)
{
    qn_graph *g = t->g;
    qn_node *a = t->src[0], *b = t->src[1], *dy = t->dy;
    const int rank = t->y_shape.rank;
    if (t->wanted[0]) give(t, 0, product(t, dy, qn__grad_transpose(g, b, -2, -1)));
    /* one matrix for the whole batch: one long product sums over it */
    if (t->wanted[1] && t->shape[1].rank == 2 && rank > 2) {
        const int64_t n = t->y_shape.dim[rank - 1], k = t->shape[1].dim[0];
        int64_t rows = 1;
        for (int i = 0; i < rank - 1; i++) rows *= t->y_shape.dim[i];
        qn_node *tall = qn__grad_reshape(g, a, &qn_shape_of(rows, k));
        t->dx[1] = product(t, qn__grad_transpose(g, tall, 0, 1), qn__grad_reshape(g, dy, &qn_shape_of(rows, n)));
    } else if (t->wanted[1]) {
        give(t, 1, product(t, qn__grad_transpose(g, a, -2, -1), dy));
    }
    if (t->n_src > 2 && t->wanted[2]) give(t, 2, times(t, dy, ((const qn_matmul_attrs *)t->attrs)->beta));
}
