/* SPDX-License-Identifier: MIT */
/* src/text/jinja/ast.h -- a template as it was parsed: a tree of nodes in one arena, immutable, shared by renderings.
 * Names are interned: a variable is a small number, which scopes compare. */
#ifndef QN_TEXT_JINJA_AST_H
#define QN_TEXT_JINJA_AST_H

#include "text/jinja/value.h"

typedef enum qn_node_kind {
    /* expressions */
    QN_N_const,   /* value */
    QN_N_name,    /* sym */
    QN_N_list,    /* items */
    QN_N_tuple,   /* items */
    QN_N_dict,    /* items: key, value, key, value .. */
    QN_N_attr,    /* a.name */
    QN_N_item,    /* a[b] */
    QN_N_slice,   /* a[items[0]:items[1]:items[2]], each may be NULL */
    QN_N_call,    /* a(args) */
    QN_N_filter,  /* a | filter(args); a NULL in a filter block */
    QN_N_test,    /* a is test(args) */
    QN_N_unary,   /* op a */
    QN_N_binary,  /* a op b */
    QN_N_compare, /* a ops[0] items[0] ops[1] items[1] .. */
    QN_N_and,
    QN_N_or,
    QN_N_concat, /* items[0] ~ items[1] .. */
    QN_N_cond,   /* a if b else c; c may be NULL */
    /* statements */
    QN_N_text,         /* value: a literal of the template */
    QN_N_output,       /* {{ a }} */
    QN_N_block,        /* items: statements */
    QN_N_if,           /* a: condition, b: then, c: else, may be NULL */
    QN_N_for,          /* target, a: over what, b: body, c: else, d: filter; flag: recursive */
    QN_N_set,          /* target = a */
    QN_N_set_block,    /* target = text of b, through the filter chain a */
    QN_N_macro,        /* macro */
    QN_N_call_block,   /* a: the call; macro: what caller() is */
    QN_N_filter_block, /* text of b through the chain a */
    QN_N_scope,        /* b in a scope of its own: generation */
    QN_N_with,         /* items: targets and values in turn, b: body */
    QN_N_break,
    QN_N_continue
} qn_node_kind;

typedef enum qn_jinja_op {
    QN_J_add,
    QN_J_sub,
    QN_J_mul,
    QN_J_div,
    QN_J_floordiv,
    QN_J_mod,
    QN_J_pow,
    QN_J_not,
    QN_J_neg,
    QN_J_pos,
    QN_J_eq,
    QN_J_ne,
    QN_J_lt,
    QN_J_le,
    QN_J_gt,
    QN_J_ge,
    QN_J_in,
    QN_J_not_in
} qn_jinja_op;

typedef struct qn_jnode qn_jnode;
typedef struct qn_filter_row qn_filter_row;
typedef struct qn_test_row qn_test_row;

/* Arguments of a call, filter or test. Positional ones first; `star` and `star_star` are *x and **x. */
typedef struct qn_args {
    qn_jnode **positional;
    const char **names; /* of the keyword arguments */
    qn_jnode **named;
    int n_positional, n_named;
    qn_jnode *star, *star_star;
} qn_args;

typedef struct qn_macro_def {
    const char *name;
    int n_params, n_defaults; /* defaults belong to the last ones */
    int *params;              /* symbols */
    qn_jnode **defaults;
    qn_jnode *body;
    bool takes_caller, takes_varargs, takes_kwargs; /* the body uses these names */
} qn_macro_def;

struct qn_jnode {
    qn_node_kind kind;
    uint32_t at;    /* byte in the source, for messages */
    uint16_t depth; /* of the tree below */
    bool flag;
    int op, sym, n;
    qn_jnode *a, *b, *c, *d;
    union {
        qn_jnode **items;
        const qn_filter_row *filter;
        const qn_test_row *test;
        qn_macro_def *macro;
        qn_jnode *target;
    };
    int *ops;
    const char *name;
    qn_args *args;
    qn_val value;
};

/* What is compiled. `heap` holds it. */
typedef struct qn_jinja {
    qn_heap heap;
    char *source;
    size_t n;
    qn_jnode *root;
    const char **names; /* [n_names] of symbols */
    int n_names, cap_names;
} qn_jinja;

/* The symbols that the interpreter itself binds. */
/* clang-format off */
#define QN_JINJA_SYMS(SYM) SYM(loop) SYM(caller) SYM(varargs) SYM(kwargs)
enum {
#define QN_JINJA_SYM(name) QN_SYM_##name,
    QN_JINJA_SYMS(QN_JINJA_SYM)
#undef QN_JINJA_SYM
    QN_SYM_COUNT
};
/* clang-format on */

#define QN_JINJA_MAX_DEPTH  400               /* of nested expressions and statements */
#define QN_JINJA_MAX_SOURCE ((size_t)1 << 22) /* bytes of a template; the longest known has 40 KB */

int qn__jinja_symbol(qn_jinja *j, const char *name, size_t n);  /* new or known; -1 after a failure */
int qn__jinja_find_symbol(const qn_jinja *j, const char *name); /* -1: the template has no such name */
/* 1-based line and column of a byte of the source. */
void qn__jinja_place(const qn_jinja *j, uint32_t at, int *line, int *column);

#endif
