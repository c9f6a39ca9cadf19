/* SPDX-License-Identifier: MIT */
/* src/graph/ops.c -- the op table, generated from ops.def, and the public questions about a node. */
#include "graph/internal.h"

enum { FOLLOWS_none = -1, FOLLOWS_src0, FOLLOWS_src1 };

static const qn_op_info table[QN_OP_COUNT] = {
#define QN_OP(name, kind, min, max, attrs, rule, inplace, follows, cost, formula) \
    {#name,           QN_KIND_##kind, min, max, sizeof(attrs), qn__rule_##rule, inplace, FOLLOWS_##follows, \
     qn__cost_##cost, formula},
#include "graph/ops.def"
#undef QN_OP
};

#define QN_OP(name, kind, min, max, attrs, rule, inplace, follows, cost, formula) \
    _Static_assert((min) <= (max) && (max) <= QN_MAX_SRC, #name ": sources"); \
    _Static_assert(!(inplace) || (QN_KIND_##kind == QN_KIND_compute && (min) >= 1), #name ": nothing to write over"); \
    _Static_assert(FOLLOWS_##follows < (max), #name ": follows a source that it lacks");
#include "graph/ops.def"
#undef QN_OP

const qn_op_info *qn__op_info(qn_op op)
{
    static const qn_op_info unknown = {.name = "?",
                                       .attrs_bytes = sizeof(qn_no_attrs),
                                       .follows = FOLLOWS_none,
                                       .cost = qn__cost_none,
                                       .formula = "?"};
    return (unsigned)op < QN_OP_COUNT ? &table[op] : &unknown;
}

const char *qn_node_op_name(const qn_node *node) { return qn__op_info(node->op)->name; }
const char *qn_node_name(const qn_node *node) { return node->name; }
qn_dtype qn_node_dtype(const qn_node *node) { return node->dtype; }
qn_shape qn_node_shape(const qn_node *node) { return qn_layout_shape(&node->layout); }
int qn_node_layer(const qn_node *node) { return node->layer; }
int qn_node_place(const qn_node *node) { return node->place; }
int qn_node_id(const qn_node *node) { return node->id; }
int qn_node_n_sources(const qn_node *node) { return node->n_src; }

const qn_node *qn_node_source(const qn_node *node, int index)
{
    return index >= 0 && index < node->n_src ? node->src[index] : NULL;
}
