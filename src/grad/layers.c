/* SPDX-License-Identifier: MIT */
/* src/grad/layers.c -- normalization and rotation, as language models have them. */
#include "grad/rows.h"

/* y = x r w with r = 1 / sqrt(mean(x x) + eps): with v = dy w, dx = r (v - x r^2 mean(v x)), dw = sum of dy x r. */
void qn__grad_rms_norm(qn_grad_task *t)
{
    qn_graph *g = t->g;
    const double eps = (double)((const qn_norm_attrs *)t->attrs)->eps;
    qn_node *x = t->src[0];
    const int last = -1;
    qn_node *r = unary(t, QN_OP_rsqrt, plus(t, qn__reduce(g, QN_OP_mean, square(t, x), &last, 1, true, 0.0), eps));
    if (t->wanted[0]) {
        qn_node *v = t->n_src > 1 ? mul(t, t->dy, t->src[1]) : t->dy;
        qn_node *along = mul(t, square(t, r), qn__reduce(g, QN_OP_mean, mul(t, v, x), &last, 1, true, 0.0));
        t->dx[0] = mul(t, r, sub(t, v, mul(t, x, along)));
    }
    if (t->n_src > 1 && t->wanted[1]) give(t, 1, mul(t, t->dy, mul(t, x, r)));
}

/* A rotation's transpose is the rotation back: by the negative positions. Its scale stays. */
void qn__grad_rope(qn_grad_task *t)
{
    t->dx[0] = qn__rope(t->g, t->dy, neg(t, t->src[1]), t->n_src > 2 ? t->src[2] : NULL, t->attrs);
}
