/* SPDX-License-Identifier: MIT */
/* quern/graph.h -- looking at graphs: what a callback may ask of a node, and the formats in which graphs print. */
#ifndef QUERN_GRAPH_H
#define QUERN_GRAPH_H

#include <quern/base.h>
#include <quern/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_graph qn_graph;
typedef struct qn_node qn_node;

/* text: a line `graph "title": 20 nodes`, then a line a node in the order of execution,
 *         %7 rope(%6, %1) "q-0" F32 [3,2,2] mode=neox n_rot=2 base=10000 layer=0 on cpu:avx2 output 12.3 us
 *       of which name, attributes, layer, place, flags and measured time are there only when there is something to say.
 * A view's strides (in elements) are given when it is not row-major, its offset when it is not 0. dot:  for Graphviz: a
 * box a node, a cluster a layer. svg:  a drawing for any browser: boxes for computations and views, rounded chips for
 * inputs and params beside every user. Names are shown with control bytes, quotes, backslashes and broken UTF-8 as
 * \xNN. Colours tell the backend or the measured time. */
typedef enum qn_graph_format { QN_GRAPH_text, QN_GRAPH_dot, QN_GRAPH_svg } qn_graph_format;

/* Borrowed answers about a node, valid while its graph lives. */
QN_API const char *qn_node_op_name(const qn_node *node);
QN_API const char *qn_node_name(const qn_node *node);
QN_API qn_dtype qn_node_dtype(const qn_node *node);
QN_API qn_shape qn_node_shape(const qn_node *node);
QN_API int qn_node_layer(const qn_node *node); /* -1 outside layers */
QN_API int qn_node_place(const qn_node *node); /* backend index */
QN_API int qn_node_id(const qn_node *node);
QN_API int qn_node_n_sources(const qn_node *node);
QN_API const qn_node *qn_node_source(const qn_node *node, int index);

#ifdef __cplusplus
}
#endif
#endif
