/* SPDX-License-Identifier: MIT */
/* src/graph/internal.h -- what the files of this room share. */
#ifndef QN_GRAPH_INNER_H
#define QN_GRAPH_INNER_H

#include "graph/graph.h"
#include "tensor/shape.h"

/* More nodes than any graph of ours by three orders; keeps every id and every count of edges inside int32. */
#define QN_MAX_NODES (1 << 24)

/* One function a shape rule and a cost; several rows of ops.def may name the same. A row without its rule does not
 * link. */
#define QN_OP(name, kind, min, max, attrs, rule, inplace, follows, cost, formula) \
    qn_status qn__rule_##rule(qn_node *n, qn_error *err); \
    void qn__cost_##cost(const qn_node *n, qn_trace_node_cost *c);
#include "graph/ops.def"
#undef QN_OP

/* Appends a copy of `proto` (op, dtype and layout for leaves, attrs, src, n_src, flags) after its rule has passed.
 * Gives g->bad and keeps the error when something is wrong. */
qn_node *qn__record(qn_graph *g, const qn_node *proto);
/* Keeps the first error; `text` comes from a status-returning function that filled `e`. Returns g->bad. */
qn_node *qn__stick(qn_graph *g, const qn_error *e);

/* Element 0, 1, .. of the value follow each other in memory, wherever they start. */
static inline bool qn__row_major(const qn_layout *layout) { return qn_layout_is_contiguous(layout); }
bool qn__layout_same(const qn_layout *a, const qn_layout *b);
/* A layout whose every byte is defined, padding included, for hashing and comparing as bytes. */
void qn__layout_canonical(qn_layout *dst, const qn_layout *src);
/* Bytes of that many elements of this layout's shape; -1 when they don't divide into blocks or overflow int64. */
int64_t qn__layout_bytes(qn_dtype dtype, const qn_layout *layout);
/* Whose memory a node of this op over these sources is: itself, or for views and updates its first source's root. */
static inline qn_node *qn__root_of(qn_node *n)
{
    const qn_op_kind kind = qn__op_info(n->op)->kind;
    return kind == QN_KIND_view || kind == QN_KIND_update ? n->src[0]->root : n;
}
static inline bool qn__is_param(const qn_node *n, uint32_t flag)
{
    return n->op == QN_OP_param && (n->flags & flag) != 0;
}

/* Is that a rotation of heads of d elements? */
qn_status qn__rope_check(const qn_rope_attrs *a, int64_t d, qn_error *err);
/* The attributes of a node as text, "" or " scale=0.5 bias=0", from the row of its attribute struct. */
void qn__attrs_print(const qn_node *n, qn_str *out);
/* A node for messages: `%7 linear "attn_q"`; returns buf. */
#define QN_NODE_TEXT 160
const char *qn__node_text(const qn_node *n, char buf[QN_NODE_TEXT]);

#endif
