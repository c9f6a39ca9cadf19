/* SPDX-License-Identifier: MIT */
/* src/text/jinja/call.h -- a rendering under way, and everything that can be called: filters, tests, functions, methods
 * and macros. Filters, tests, functions and methods are rows of filters.def, tests.def, functions.def and methods.def:
 * name, C function, and the names of their parameters, so that positional and keyword arguments are sorted in one
 * place. */
#ifndef QN_TEXT_JINJA_CALL_H
#define QN_TEXT_JINJA_CALL_H

#include "text/jinja/ast.h"
#include "text/jinja/jinja.h"

#define QN_MAX_PARAMS 6

typedef struct qn_scope qn_scope;
struct qn_scope {
    qn_scope *outer;
    int *syms;
    qn_val *values;
    int n, cap;
};

typedef struct qn_run {
    const qn_jinja *j;
    qn_heap *h;
    const qn_jinja_options *options;
    qn_scope *scope;
    qn_vbuf *out;
    const qn_vbuf *whole; /* the result */
    int64_t steps;
    int depth; /* of macros and recursive loops */
    enum { QN_GO_ON, QN_BREAK, QN_CONTINUE } jump;
    uint32_t at; /* in the source: the innermost node that is computed, for messages */
} qn_run;

static inline bool qn__run_failed(const qn_run *r) { return r->h->status != QN_OK; }

/* What a call was given, computed. */
typedef struct qn_argv {
    qn_val *positional;
    uint32_t n;
    qn_vdict *named; /* may be NULL */
} qn_argv;

/* argv sorted into parameters: args[i] is absent where it was not given. rest: what is left over, for variadic ones. */
typedef struct qn_call {
    qn_run *r;
    qn_heap *h;
    qn_val self; /* of a filter, test or method: the value; else undefined */
    qn_val args[QN_MAX_PARAMS];
    const qn_argv *all;
    const void *row;
} qn_call;
typedef qn_val (*qn_call_fn)(qn_call *c);

/* params: names with blanks between; a trailing "*": any further arguments are taken, too (qn_call.all); a leading "/":
 * they cannot be given by name. */
struct qn_filter_row {
    const char *name;
    qn_call_fn fn;
    int required;
    const char *params;
};
struct qn_test_row {
    const char *name;
    qn_call_fn fn; /* gives a bool */
    int required;
    const char *params;
};
typedef struct qn_function_row {
    const char *name;
    qn_call_fn fn;
    int required;
    const char *params;
    bool changes; /* a method that changes its object: not there under `strict` */
} qn_function_row;

/* A function or method as a value. */
typedef struct qn_bound {
    const qn_function_row *row;
    qn_val self;
} qn_bound;

typedef struct qn_macro {
    const qn_macro_def *def;
    qn_scope *scope; /* where it was defined */
} qn_macro;

/* The variable `loop`. */
typedef struct qn_loop {
    qn_vlist *items;    /* with a condition: those for which it holds, as far as they were looked for */
    const qn_vlist *of; /* what it walks over */
    uint32_t tried;     /* elements of `of` that the condition was asked about */
    bool trying;        /* it is being asked */
    uint32_t i;
    int depth;
    const qn_jnode *node;
    qn_scope *scope; /* outside of it */
    qn_val changed;  /* what loop.changed() was given last; absent before */
} qn_loop;

typedef struct qn_cycler {
    qn_vlist *items;
    uint32_t i;
} qn_cycler;

typedef struct qn_joiner {
    qn_val separator;
    bool used;
} qn_joiner;

const qn_filter_row *qn__filter_find(const char *name);
const qn_test_row *qn__test_find(const char *name);
qn_val qn__apply_filter(qn_run *r, const qn_filter_row *row, qn_val self, const qn_argv *argv);
bool qn__apply_test(qn_run *r, const qn_test_row *row, qn_val self, const qn_argv *argv);
/* A method of a value by name; NULL where it has none. */
const qn_function_row *qn__method_find(qn_val self, const char *name);
const qn_function_row *qn__global_find(const char *name);
qn_val qn__call_row(qn_run *r, const qn_function_row *row, qn_val self, const qn_argv *argv);
qn_val qn__jinja_call(qn_run *r, qn_val what, const qn_argv *argv);
qn_val qn__call_macro(qn_run *r, const qn_macro *m, const qn_argv *argv, qn_val caller);
qn_val qn__call_loop(qn_run *r, const qn_loop *outer, qn_val over);
/* Whether a loop has an element i, items[i]: asks its condition about no more elements than that takes. */
bool qn__loop_reaches(qn_run *r, qn_loop *l, uint32_t i);

/* object.name and object[key], by jinja2's rules: the other way is tried, too. */
qn_val qn__get_attr(qn_run *r, qn_val object, const char *name);
qn_val qn__get_item(qn_run *r, qn_val object, qn_val key);
qn_val qn__get_slice(qn_run *r, qn_val object, qn_val start, qn_val stop, qn_val step);
/* "a.b.0": what attribute= of filters means. `otherwise` stands for what is undefined, behind each part of the path;
 * absent or None: nothing does. */
qn_val qn__get_path(qn_run *r, qn_val object, qn_val path, qn_val otherwise);
qn_val qn__val_binary(qn_run *r, int op, qn_val a, qn_val b);
bool qn__val_compare_op(qn_run *r, int op, qn_val a, qn_val b);
/* a + b of strings; where one is markup, the other is escaped. */
qn_val qn__val_concat(qn_heap *h, qn_val a, qn_val b);
qn_val qn__html_escape(qn_heap *h, const qn_vstr *s);
/* Python's s % args and s.format(..). */
qn_val qn__str_percent(qn_run *r, const qn_vstr *s, qn_val args);
qn_val qn__str_format(qn_run *r, const qn_vstr *s, const qn_argv *argv);

void qn__jinja_exec(qn_run *r, const qn_jnode *node);
qn_val qn__jinja_eval(qn_run *r, const qn_jnode *node);
void qn__set_var(qn_run *r, int sym, qn_val v);
qn_scope *qn__scope_new(qn_run *r, qn_scope *outer);
/* Assigns to a name, a tuple of names, or a namespace's attribute. */
void qn__var_assign(qn_run *r, const qn_jnode *target, qn_val v);

/* Arguments of a call as C wants them. */
static inline bool qn__is_text(const qn_call *c, int i) { return qn__is_str(c->args[i]); }
int64_t qn__arg_int(qn_call *c, int i, int64_t otherwise);
bool qn__arg_bool(const qn_call *c, int i, bool otherwise);
const qn_vstr *qn__arg_str(qn_call *c, int i); /* NULL, and raised unless absent */

/* Of a character what \s, \w and \d match in Python's re. */
bool qn__py_space(uint32_t cp);
bool qn__py_word(uint32_t cp);
bool qn__py_decimal(uint32_t cp);

#endif
