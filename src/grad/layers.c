/* SPDX-License-Identifier: MIT */
/* src/grad/layers.c -- normalization, gates, rotation and cross entropy, as language models have them: each is one
 * node, whose parts are views. */
#include "grad/rows.h"

/* Neighbours in a row touch: x, or a copy. */
static qn_node *dense_rows(const qn_grad_task *t, qn_node *x)
{
    if (x == NULL || t->g->error.status != QN_OK) return x;
    const qn_layout *l = &x->layout;
    return l->rank == 0 || l->dim[l->rank - 1] <= 1 || l->stride[l->rank - 1] == 1 ? x : qn__copy(t->g, x, x->dtype);
}

static void refuse(const qn_grad_task *t, const char *what)
{
    if (t->g->error.status == QN_OK) (void)QN_FAIL(&t->g->error, unsupported, "%s", what);
}

/* Elements of a vector, from *at on, in that shape. */
static qn_node *part(const qn_grad_task *t, qn_node *packed, int64_t *at, const qn_shape *shape)
{
    const int64_t n = qn_shape_numel(shape), first = *at;
    *at += n;
    return qn__reshape(t->g, qn__narrow(t->g, packed, 0, first, n), *shape);
}

static void norm_back(qn_grad_task *t, double eps, bool centred)
{
    qn_norm_back_attrs attrs = {.eps = eps, .centred = centred};
    int64_t at = 0;
    for (int i = 0; i < t->n_src; i++) attrs.wanted |= t->wanted[i] ? 1 << i : 0;
    if (attrs.wanted == 0) return;
    qn_node *w = t->n_src > 1 && t->wanted[0] ? t->src[1] : NULL;
    qn_node *y = qn__norm_back(t->g, dense_rows(t, t->dy), dense_rows(t, t->src[0]), dense_rows(t, w), &attrs);
    for (int i = 0; i < t->n_src; i++) {
        if (t->wanted[i]) t->dx[i] = attrs.wanted == QN_NORM_x ? y : part(t, y, &at, &t->shape[i]);
    }
}

void qn__grad_rms_norm(qn_grad_task *t)
{
    const double eps = ((const qn_norm_attrs *)t->attrs)->eps;
    norm_back(t, t->dtype[0] == QN_DTYPE_F64 ? eps : (double)(float)eps, false);
}

/* The gradient to b alone looks at dy only, but dy stands for x there. */
void qn__grad_layer_norm(qn_grad_task *t)
{
    if (t->src[0] == NULL) t->src[0] = t->dy;
    norm_back(t, ((const qn_layer_norm_attrs *)t->attrs)->eps, true);
}

void qn__grad_swiglu(qn_grad_task *t)
{
    qn_graph *g = t->g;
    if (t->src[1] == NULL) { /* up alone is wanted, and its slope needs gate alone */
        t->dx[1] = mul(t, t->dy, unary(t, QN_OP_silu, t->src[0]));
        return;
    }
    qn_node *both = qn__swiglu_back(g, t->dy, t->src[0], t->src[1]);
    for (int i = 0; i < 2; i++) {
        if (t->wanted[i]) t->dx[i] = qn__reshape(g, qn__narrow(g, both, 0, i, 1), t->shape[i]);
    }
}

/* A rotation's transpose is the rotation back: by the negative positions. Its scale stays. */
void qn__grad_rope(qn_grad_task *t)
{
    t->dx[0] = qn__rope(t->g, dense_rows(t, t->dy), neg(t, t->src[1]), t->n_src > 2 ? t->src[2] : NULL, t->attrs);
}

void qn__grad_rope_apply(qn_grad_task *t)
{
    qn_rope_apply_attrs attrs = *(const qn_rope_apply_attrs *)t->attrs;
    attrs.back = !attrs.back;
    if (t->wanted[0]) t->dx[0] = qn__rope_apply(t->g, dense_rows(t, t->dy), dense_rows(t, t->src[1]), &attrs);
    if (t->wanted[1]) refuse(t, "rope_apply has no gradient to the table");
}

void qn__grad_cross_entropy(qn_grad_task *t)
{
    if (t->wanted[0]) {
        t->dx[0] = qn__cross_entropy_back(t->g, dense_rows(t, t->src[0]), t->src[1], t->y, t->dy,
                                          t->n_src > 2 ? t->src[2] : NULL, t->attrs);
    }
    if (t->n_src > 2 && t->wanted[2]) refuse(t, "cross_entropy has no gradient to the weights of classes");
}
