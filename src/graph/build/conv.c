/* SPDX-License-Identifier: MIT */
/* src/graph/build/conv.c -- builders of convolution, pooling, resizing and bags of embeddings. */
#include "graph/graph.h"

qn_node *qn__conv(qn_graph *g, qn_node *x, qn_node *w, qn_node *b, const qn_conv_attrs *attrs)
{
    return qn__op(g, QN_OP_conv, attrs, (qn_node *[]){x, w, b}, b != NULL ? 3 : 2);
}

qn_node *qn__conv_input(qn_graph *g, qn_node *y, qn_node *w, qn_node *b, const qn_conv_attrs *attrs)
{
    return qn__op(g, QN_OP_conv_input, attrs, (qn_node *[]){y, w, b}, b != NULL ? 3 : 2);
}

qn_node *qn__conv_weight(qn_graph *g, qn_node *x, qn_node *y, const qn_conv_attrs *attrs)
{
    return qn__op(g, QN_OP_conv_weight, attrs, (qn_node *[]){x, y}, 2);
}

qn_node *qn__pool(qn_graph *g, qn_node *x, const qn_pool_attrs *attrs) { return qn__op(g, QN_OP_pool, attrs, &x, 1); }

qn_node *qn__pool_back(qn_graph *g, qn_node *y, qn_node *x, const qn_pool_attrs *attrs)
{
    return qn__op(g, QN_OP_pool_back, attrs, (qn_node *[]){y, x}, x != NULL ? 2 : 1);
}

qn_node *qn__upsample(qn_graph *g, qn_node *x, const qn_upsample_attrs *attrs)
{
    return qn__op(g, QN_OP_upsample, attrs, &x, 1);
}

qn_node *qn__upsample_back(qn_graph *g, qn_node *y, const qn_upsample_attrs *attrs)
{
    return qn__op(g, QN_OP_upsample_back, attrs, &y, 1);
}

qn_node *qn__embedding_bag(qn_graph *g, qn_node *table, qn_node *ids, qn_node *offsets, qn_node *weights,
                           const qn_bag_attrs *attrs)
{
    return qn__op(g, QN_OP_embedding_bag, attrs, (qn_node *[]){table, ids, offsets, weights}, weights != NULL ? 4 : 3);
}

qn_node *qn__embedding_bag_back(qn_graph *g, qn_node *y, qn_node *ids, qn_node *offsets, qn_node *weights,
                                qn_node *table, const qn_bag_attrs *attrs)
{
    qn_node *fourth = weights != NULL ? weights : table;
    return qn__op(g, QN_OP_embedding_bag_back, attrs, (qn_node *[]){y, ids, offsets, fourth}, fourth != NULL ? 4 : 3);
}
