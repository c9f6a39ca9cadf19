/* SPDX-License-Identifier: MIT */
/* quern/graph.h -- looking at graphs: what a callback may ask of a node, the formats in which graphs print, and the
 * passes that refine a graph before it runs. What is computed by graphs, models (quern/engine.h) and tensor programs
 * (quern/array.h), is looked at by the same types. */
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
 * \xNN. Colours tell the backend, or what was asked for. */
typedef enum qn_graph_format { QN_GRAPH_text, QN_GRAPH_dot, QN_GRAPH_svg } qn_graph_format;

/* What colours tell: QN_GRAPH_COLOR(name, "what"). */
/* clang-format off */
#define QN_GRAPH_COLOR_ROWS(QN_GRAPH_COLOR) \
    QN_GRAPH_COLOR(backend, "where a node is computed") \
    QN_GRAPH_COLOR(kind,    "what kind of operation it is") \
    QN_GRAPH_COLOR(time,    "what it took, white to red") \
    QN_GRAPH_COLOR(bytes,   "what it must read and write, white to red")
/* clang-format on */
#define QN_GRAPH_COLOR_ENUM(name, text) QN_GRAPH_COLOR_##name,
typedef enum qn_graph_color { QN_GRAPH_COLOR_ROWS(QN_GRAPH_COLOR_ENUM) QN_GRAPH_COLOR_COUNT } qn_graph_color;
#undef QN_GRAPH_COLOR_ENUM
QN_API const char *qn_graph_color_name(int color); /* "?" when there is none */

/* The graph that a step of a recording ran (quern/trace.h), as it ran; without the attributes of operations, which a
 * recording does not have. node_ns, node_bytes: [n_nodes of the plan] by id, what each took (below 0: not recorded) and
 * must touch (qn_trace_cost_of); NULL: not known, which colouring by it refuses. layer -1 prints all. *out is freed
 * with qn_free. format for an operation that this version does not know, nomem. */
struct qn_trace_step;
QN_API qn_status qn_trace_print_graph(const struct qn_trace_step *step, const double *node_ns, const double *node_bytes,
                                      int layer, qn_graph_format format, qn_graph_color color, char **out,
                                      qn_error *err);

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

/* Called before and after each node that computes; false stops the run, which then fails with `cancelled`. */
typedef bool (*qn_eval_fn)(void *ctx, const qn_node *node, bool after);

/* ---- passes ---- */

/* What is done to a graph before it is placed and planned, in this order. No pass changes a bit of a result.
 * QN_PASS(name, "what it does"). */
/* clang-format off */
#define QN_PASS_ROWS(QN_PASS) \
    QN_PASS(fold,   "scale of scale, scale by one, and nodes of constants only are computed now") \
    QN_PASS(layout, "views of views become one view; copies that change nothing go") \
    QN_PASS(cse,    "equal nodes over equal sources become one") \
    QN_PASS(fuse,   "silu*mul -> swiglu, rms_norm*weight -> rms_norm, linear+bias -> linear") \
    QN_PASS(dce,    "what no output or update needs goes")
/* clang-format on */
#define QN_PASS_ENUM(name, text) QN_PASS_##name,
typedef enum qn_pass { QN_PASS_ROWS(QN_PASS_ENUM) QN_PASS_COUNT } qn_pass;
#undef QN_PASS_ENUM

/* For a passes_off: .passes_off = QN_PASS_BIT(fuse) | QN_PASS_BIT(cse). */
#define QN_PASS_BIT(name)          (UINT32_C(1) << QN_PASS_##name)
#define QN_PASS_LISTED(name, text) ", " #name
#define QN_PASS_NAMES              (&(QN_PASS_ROWS(QN_PASS_LISTED))[2]) /* "fold, layout, .." */
QN_API const char *qn_pass_name(qn_pass pass);                          /* NULL when there is no such pass */
QN_API bool qn_pass_find(const char *name, qn_pass *out);

typedef struct qn_pass_stats {
    int32_t nodes_before, nodes_after; /* equal when the pass was off */
    int32_t changed;                   /* nodes replaced, rewritten or removed */
    int64_t ns;                        /* that it took */
} qn_pass_stats;

#ifdef __cplusplus
}
#endif
#endif
