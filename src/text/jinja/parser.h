/* SPDX-License-Identifier: MIT */
/* src/text/jinja/parser.h -- what the two halves of the parser share: expressions (parse_expr.c) and statements
 * (parse.c). Both follow jinja2's grammar and precedence. */
#ifndef QN_TEXT_JINJA_PARSER_H
#define QN_TEXT_JINJA_PARSER_H

#include "text/jinja/lexer.h"

typedef struct qn_parser {
    qn_jinja *j;
    qn_jtoken *t; /* the present token; the last is QN_T_end */
    int depth;    /* of the recursion */
    int loops;    /* open for loops in this macro */
    /* of the innermost macro: whether it uses these names */
    bool uses_caller, uses_varargs, uses_kwargs;
    qn_jnode dummy; /* given out after a failure; nobody reads it */
} qn_parser;

static inline bool qn__parse_failed(const qn_parser *p) { return p->j->heap.status != QN_OK; }
qn_jnode *qn__jnode(qn_parser *p, qn_node_kind kind, uint32_t at); /* never NULL: after a failure a dummy */
qn_jnode *qn__jnode_sealed(qn_parser *p, qn_jnode *node);          /* notes and checks the depth of a finished node */
/* A growing array of nodes. */
typedef struct qn_nodes {
    qn_jnode **items;
    int n, cap;
} qn_nodes;
void qn__nodes_add(qn_parser *p, qn_nodes *l, qn_jnode *node);

bool qn__at_op(const qn_parser *p, const char *op);
bool qn__at_name(const qn_parser *p, const char *name);
bool qn__take_op(qn_parser *p, const char *op);
bool qn__take_name(qn_parser *p, const char *name);
void qn__expect_op(qn_parser *p, const char *op);
void qn__expect_name(qn_parser *p, const char *name);
const char *qn__take_identifier(qn_parser *p, int *sym); /* sym may be NULL */
qn_jnode *qn__parse_error(qn_parser *p, const char *expected);

qn_jnode *qn__parse_expression(qn_parser *p, bool with_condition);
qn_jnode *qn__parse_postfix(qn_parser *p, qn_jnode *node); /* .name [item] (call) */
/* One expression, or several with commas as a tuple. with_condition: `a if b` is one. */
qn_jnode *qn__parse_tuple(qn_parser *p, bool with_condition, bool may_be_empty);
/* name, name.attr (with_namespace), or names with commas and brackets. */
qn_jnode *qn__parse_target(qn_parser *p, bool with_namespace);
/* The chain behind a pipe, with `a` of the innermost filter NULL; from the present name when `begun`. */
qn_jnode *qn__parse_filters(qn_parser *p, qn_jnode *node, bool begun);
qn_args *qn__parse_args(qn_parser *p); /* at the opening parenthesis */

#endif
