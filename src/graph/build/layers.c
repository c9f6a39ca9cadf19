/* SPDX-License-Identifier: MIT */
/* src/graph/build/layers.c -- builders of layers, losses and their gradients, see ops_layers.h. */
#include "graph/graph.h"

qn_node *qn__cumprod_back(qn_graph *g, qn_node *dy, qn_node *x)
{
    return qn__op(g, QN_OP_cumprod_back, NULL, (qn_node *[]){dy, x}, 2);
}

qn_node *qn__softmax_back(qn_graph *g, qn_node *dy, qn_node *y, bool log)
{
    return qn__op(g, QN_OP_softmax_back, &(qn_softmax_back_attrs){log}, (qn_node *[]){dy, y}, 2);
}

qn_node *qn__layer_norm(qn_graph *g, qn_node *x, qn_node *w, qn_node *b, double eps)
{
    return qn__op(g, QN_OP_layer_norm, &(qn_layer_norm_attrs){eps}, (qn_node *[]){x, w, b},
                  b != NULL   ? 3
                  : w != NULL ? 2
                              : 1);
}

qn_node *qn__norm_back(qn_graph *g, qn_node *dy, qn_node *x, qn_node *w, const qn_norm_back_attrs *attrs)
{
    return qn__op(g, QN_OP_norm_back, attrs, (qn_node *[]){dy, x, w}, w != NULL ? 3 : 2);
}

qn_node *qn__swiglu_back(qn_graph *g, qn_node *dy, qn_node *gate, qn_node *up)
{
    return qn__op(g, QN_OP_swiglu_back, NULL, (qn_node *[]){dy, gate, up}, 3);
}

qn_node *qn__rope_table(qn_graph *g, qn_node *pos, qn_node *factors, const qn_rope_table_attrs *attrs)
{
    return qn__op(g, QN_OP_rope_table, attrs, (qn_node *[]){pos, factors}, factors != NULL ? 2 : 1);
}

qn_node *qn__rope_apply(qn_graph *g, qn_node *x, qn_node *table, const qn_rope_apply_attrs *attrs)
{
    return qn__op(g, QN_OP_rope_apply, attrs, (qn_node *[]){x, table}, 2);
}

qn_node *qn__cross_entropy(qn_graph *g, qn_node *logits, qn_node *ids, qn_node *weight,
                           const qn_cross_entropy_attrs *attrs)
{
    return qn__op(g, QN_OP_cross_entropy, attrs, (qn_node *[]){logits, ids, weight}, weight != NULL ? 3 : 2);
}

qn_node *qn__cross_entropy_back(qn_graph *g, qn_node *logits, qn_node *ids, qn_node *y, qn_node *dy, qn_node *weight,
                                const qn_cross_entropy_attrs *attrs)
{
    return qn__op(g, QN_OP_cross_entropy_back, attrs, (qn_node *[]){logits, ids, y, dy, weight},
                  weight != NULL ? 5 : 4);
}
