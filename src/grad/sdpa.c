/* SPDX-License-Identifier: MIT */
/* src/grad/sdpa.c -- attention over whole tensors: one node gives the gradients of q, k and v; that of the sinks is
 * made of its deltas. */
#include "grad/rows.h"

static qn_node *part(const qn_grad_task *t, qn_node *x, const qn_layout *layout)
{
    return qn__op(t->g, QN_OP_view, &(qn_view_attrs){.layout = *layout}, &x, 1);
}

/* y is what was recorded: the result, or the view of it that holds the rows as they lie; dy is of its shape. */
void qn__grad_sdpa(qn_grad_task *t)
{
    const qn_sdpa_attrs *a = t->attrs;
    qn_layout q, k, v;
    if (t->g->error.status != QN_OK || qn_layout_contiguous(&t->shape[0], &q, &t->g->error) != QN_OK ||
        qn_layout_contiguous(&t->shape[1], &k, &t->g->error) != QN_OK ||
        qn_layout_contiguous(&t->shape[2], &v, &t->g->error) != QN_OK)
        return;
    const qn_sdpa_sizes s = qn__sdpa_sizes(&q, &k, &v);
    const qn_sdpa_parts parts = qn__sdpa_parts(&s);
    const int sinks = 3 + (a->has_mask != 0);
    const qn_layout whole = {.rank = 1, .dim = {parts.forward}, .stride = {1}};
    qn_node *result = part(t, t->y->root, &whole);
    if (a->has_mask && t->wanted[3] && t->dtype[3] == t->dtype[0]) {
        (void)QN_FAIL(&t->g->error, unsupported, "sdpa: the mask has no gradient");
        return;
    }
    qn_node *dy = t->y_shape.rank == 1 ? t->dy : qn__grad_transpose(t->g, t->dy, 1, 2);
    qn_node *back = qn__sdpa_back(t->g, t->src[0], t->src[1], t->src[2], result, dy, a->has_mask ? t->src[3] : NULL, a);
    if (t->wanted[0]) t->dx[0] = part(t, back, &parts.dq);
    if (t->wanted[1]) t->dx[1] = part(t, back, &parts.dk);
    if (t->wanted[2]) t->dx[2] = part(t, back, &parts.dv);
    if (!a->has_sinks || !t->wanted[sinks]) return;
    qn_node *sink = qn__grad_expand(t->g, qn__grad_reshape(t->g, t->src[sinks], &qn_shape_of(1, s.heads, 1)),
                                    &qn_shape_of(s.batch, s.heads, s.n));
    qn_node *share = unary(t, QN_OP_exp, sub(t, sink, part(t, t->y->root, &parts.lse)));
    qn_node *sum = qn__grad_sum_to(t->g, mul(t, share, part(t, back, &parts.delta)), &qn_shape_of(1, s.heads, 1));
    t->dx[sinks] = qn__grad_reshape(t->g, neg(t, sum), &t->shape[sinks]);
}
