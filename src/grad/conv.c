/* SPDX-License-Identifier: MIT */
/* src/grad/conv.c -- convolution and its two adjoints, which are each other's gradients; pooling, resizing, bags of
 * embeddings. */
#include "grad/rows.h"
#include <string.h>

/* `size` is the spatial size of the result, by which conv_input and conv_weight know what they undo. */
static qn_conv_attrs conv_to(const qn_grad_task *t, const qn_shape *shape)
{
    qn_conv_attrs a = *(const qn_conv_attrs *)t->attrs;
    for (int i = 0; i < 3; i++) a.size[i] = shape != NULL && i < a.n_spatial ? shape->dim[2 + i] : 0;
    return a;
}

static qn_node *sum_of_channels(const qn_grad_task *t)
{
    const uint32_t all = (1u << t->y_shape.rank) - 1;
    qn_node *dy = t->dy;
    return qn__op(t->g, QN_OP_sum, &(qn_reduce_attrs){.dims = all & ~2u}, &dy, 1);
}

void qn__grad_conv(qn_grad_task *t)
{
    const qn_conv_attrs x = conv_to(t, &t->shape[0]), w = conv_to(t, &t->shape[1]);
    if (t->wanted[0]) t->dx[0] = qn__conv_input(t->g, t->dy, t->src[1], NULL, &x);
    if (t->wanted[1]) t->dx[1] = qn__conv_weight(t->g, t->src[0], t->dy, &w);
    if (t->n_src > 2 && t->wanted[2]) t->dx[2] = sum_of_channels(t);
}

/* sources: what conv gave, its weight */
void qn__grad_conv_input(qn_grad_task *t)
{
    const qn_conv_attrs forward = conv_to(t, NULL), w = conv_to(t, &t->shape[1]);
    if (t->wanted[0]) t->dx[0] = qn__conv(t->g, t->dy, t->src[1], NULL, &forward);
    if (t->wanted[1]) t->dx[1] = qn__conv_weight(t->g, t->dy, t->src[0], &w);
    if (t->n_src > 2 && t->wanted[2]) t->dx[2] = sum_of_channels(t);
}

/* sources: what conv read, what it gave; the result is a weight */
void qn__grad_conv_weight(qn_grad_task *t)
{
    const qn_conv_attrs forward = conv_to(t, NULL), x = conv_to(t, &t->shape[0]);
    if (t->wanted[0]) t->dx[0] = qn__conv_input(t->g, t->src[1], t->dy, NULL, &x);
    if (t->wanted[1]) t->dx[1] = qn__conv(t->g, t->src[0], t->dy, NULL, &forward);
}

void qn__grad_pool(qn_grad_task *t)
{
    qn_pool_attrs a = *(const qn_pool_attrs *)t->attrs;
    for (int i = 0; i < a.n_spatial; i++) a.size[i] = t->shape[0].dim[2 + i];
    t->dx[0] = qn__pool_back(t->g, t->dy, a.kind == QN_POOL_max ? t->src[0] : NULL, &a);
}

void qn__grad_upsample(qn_grad_task *t)
{
    qn_upsample_attrs a = *(const qn_upsample_attrs *)t->attrs;
    for (int i = 0; i < a.n_spatial; i++) a.size[i] = t->shape[0].dim[2 + i];
    t->dx[0] = qn__upsample_back(t->g, t->dy, &a);
}

void qn__grad_upsample_back(qn_grad_task *t)
{
    qn_upsample_attrs a = *(const qn_upsample_attrs *)t->attrs;
    for (int i = 0; i < a.n_spatial; i++) a.size[i] = t->shape[0].dim[2 + i];
    t->dx[0] = qn__upsample(t->g, t->dy, &a);
}

/* The bag that each id is in: how many offsets are not beyond it, less one. I64 [k]. */
static qn_node *bag_of_ids(const qn_grad_task *t)
{
    qn_graph *g = t->g;
    const int64_t k = t->shape[1].dim[0];
    qn_node *at = qn__arange(g, t->dtype[2], k, qn__value_int(0), qn__value_int(1));
    qn_node *begun = binary(t, QN_OP_ge, qn__reshape(g, at, qn_shape_of(k, 1)), t->src[2]);
    const int last = -1;
    return sub(t, qn__reduce(g, QN_OP_sum, begun, &last, 1, false, 0.0),
               qn__full(g, QN_DTYPE_I64, &(qn_shape){0}, qn__value_int(1)));
}

/* sources: table, ids, offsets, weights. A weight's gradient is its row times the gradient of its bag. */
void qn__grad_embedding_bag(qn_grad_task *t)
{
    qn_graph *g = t->g;
    qn_bag_attrs a = *(const qn_bag_attrs *)t->attrs;
    a.n_rows = t->shape[0].dim[0];
    a.strict = QN_STRICT_not; /* the forward run has looked */
    qn_node *weights = t->n_src > 3 ? t->src[3] : NULL;
    if (t->wanted[0]) {
        t->dx[0] = qn__embedding_bag_back(g, t->dy, t->src[1], t->src[2], weights,
                                          a.mode == QN_BAG_max ? t->src[0] : NULL, &a);
    }
    if (t->n_src <= 3 || !t->wanted[3]) return;
    const int last = -1;
    qn_node *rows = mul(t, qn__index_select(g, t->src[0], 0, t->src[1]), qn__index_select(g, t->dy, 0, bag_of_ids(t)));
    qn_node *padding = qn__full(g, t->dtype[1], &(qn_shape){0}, qn__value_int(a.padding_idx));
    t->dx[3] =
        except_where(t, binary(t, QN_OP_eq, t->src[1], padding), qn__reduce(g, QN_OP_sum, rows, &last, 1, false, 0.0));
}
