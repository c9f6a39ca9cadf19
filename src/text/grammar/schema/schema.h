/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/schema.h -- a JSON schema on its way to rules of a grammar.
 *
 * nodes.c registers every schema in the document and refuses what is not known. A value has to satisfy a set of such
 * nodes at once (a conjunction: a property may be described by several); sets are kept once each, so recursion ends.
 * shapes.c turns a set into alternatives that have one type each and no allOf, anyOf or $ref any more; their parts are
 * sets of nodes again (parts.c, tags.c). emit.c makes a rule of each set: objects.c, arrays.c, strings.c, numbers.c,
 * literals.c. */
#ifndef QN_TEXT_GRAMMAR_SCHEMA_SCHEMA_H
#define QN_TEXT_GRAMMAR_SCHEMA_SCHEMA_H

#include "text/grammar/grammar.h"
#include "text/grammar/schema/regex.h"
#include "text/jinja/value.h"
#include "base/str.h"

#define QN_SCHEMA_MAX_NODES  20000
#define QN_SCHEMA_MAX_SETS   20000
#define QN_SCHEMA_MAX_COUNT  100000 /* of characters or elements */
#define QN_SCHEMA_MAX_DIGITS 10000
#define QN_SCHEMA_MAX_SHAPES 20000   /* of one set */
#define QN_SCHEMA_MAX_STEPS  2000000 /* of combining shapes of a document: below 100 ms */

/* One bit each in qn_schema_node.allows. */
typedef enum qn_json_type {
    QN_JSON_null,
    QN_JSON_boolean,
    QN_JSON_number,
    QN_JSON_string,
    QN_JSON_array,
    QN_JSON_object,
    QN_JSON_N_TYPES
} qn_json_type;

typedef struct qn_schema_shapes qn_schema_shapes;

/* A schema in the document: a dict, true or false. */
typedef struct qn_schema_node {
    const qn_val *value; /* where it stands is what it is known by */
    int32_t parent;      /* -1: the root */
    const char *keyword; /* of the parent, under which it stands */
    const qn_vstr *key;  /* then, or */
    int32_t index;       /* in a list, or -1 */
    int32_t base;        /* the node that "#" of a $ref means: the next one above with a $id, or the root */
    int32_t target;      /* of its $ref once asked for, or -1 */
    bool only_ref;       /* it says nothing but $ref and annotations */
    bool widened;
    uint8_t left_out; /* keywords, as qn__schema_left_out has them */
    uint8_t state;    /* of its shapes: 0 not asked for, 1 being made, 2 there, 3 its enum or const is looked at */
    int32_t probing;  /* qn_schema.probing when they were begun */
    qn_schema_shapes *shapes;
} qn_schema_node;

/* A set of nodes, ascending; none at all: any value. */
typedef struct qn_schema_set {
    const int32_t *nodes;
    int32_t n;
    int32_t rule;  /* of the grammar, -1 before */
    bool probing;  /* being looked at for emptiness */
    uint8_t empty; /* 0 not asked, 1 no value satisfies it, 2 one may */
    qn_schema_shapes *shapes;
} qn_schema_set;

/* A bound of numbers: +-0.DIGITS * 10^point, without zeros at either end; no digits: zero. */
typedef struct qn_decimal {
    const char *digits;
    int32_t n, point;
    bool negative;
} qn_decimal;
typedef struct qn_bound {
    qn_decimal at;
    bool exclusive;
} qn_bound;

/* One alternative: values of one type that satisfy all of this. */
typedef struct qn_schema_shape {
    qn_json_type type;
    const qn_val *literal; /* this value and no other; the rest is NULL then */
    bool integer;
    const qn_bound *lo, *hi; /* NULL: none */
    int64_t min, max;        /* characters or elements; max -1: any number */
    /* patterns and formats of a string, as numbers of qn_schema.regexes; nodes with what is said of the members of an
     * array or object */
    const int32_t *parts;
    int32_t n_parts;
    const qn_vstr *const *required;
    int32_t n_required;
    int32_t node; /* that says it, or the first of those, for messages */
} qn_schema_shape;

struct qn_schema_shapes {
    qn_schema_shape *at;
    int32_t n, cap;
};

/* Rules that do not depend on the schema. */
typedef enum qn_general_rule {
    QN_GENERAL_value,
    QN_GENERAL_number,
    QN_GENERAL_integer,
    QN_GENERAL_string,
    QN_GENERAL_array,
    QN_GENERAL_object,
    QN_GENERAL_char,
    QN_GENERAL_space,
    QN_GENERAL_COUNT
} qn_general_rule;

typedef struct qn_schema_regex {
    const char *text;
    uint32_t n;
    qn_nfa nfa;
} qn_schema_regex;

struct qn_schema {
    qn_arena arena; /* holds this struct too */
    qn_grammar *g;
    qn_schema_options options;
    const qn_dialect *dialect; /* NULL: JSON */
    qn_error *err;
    qn_status status; /* sticky */
    bool restart;     /* a node was widened: what was made of it no longer holds */
    int32_t probing;  /* sets that are looked at, in each other, to tell alternatives of oneOf apart */
    int32_t circular; /* what is looked at leads back to what is being made: the first of these looks that does, or 0 */
    int64_t steps;
    int n_too_large;
    qn_schema_node *nodes;
    int32_t n_nodes, cap_nodes;
    int32_t object, others; /* nodes: {"type": "object"} of options.object, or -1; all types but strings */
    int32_t *node_slots;    /* of addresses */
    uint32_t n_node_slots;
    qn_schema_set *sets;
    int32_t n_sets, cap_sets;
    int32_t *set_slots;
    uint32_t n_set_slots;
    qn_schema_regex *regexes;
    int32_t n_regexes, cap_regexes;
    int32_t *queue; /* sets whose rules are not made yet */
    int32_t n_queue, cap_queue;
    struct {
        const qn_cp_ranges *set;
        int32_t rule;
    } * classes; /* of characters, as rules */
    int32_t n_classes, cap_classes;
    int32_t general[QN_GENERAL_COUNT]; /* rules + 1 */
};

/* ---- schema.c: errors, memory ------------------------------------------------------------------------ */

static inline bool qn__schema_going(const qn_schema *c) { return c->status == QN_OK && !c->restart && !c->circular; }
void *qn__schema_alloc(qn_schema *c, size_t count, size_t size); /* zeroed; NULL after a failure */
bool qn__schema_grow(qn_schema *c, void *array, int32_t n, int32_t *cap, size_t size);
/* A node that cannot be enforced: an error with its pointer, or, with options.widen, noted and widened. */
void qn__schema_refuse(qn_schema *c, int32_t node, qn_status status, const char *fmt, ...) QN_PRINTF(4, 5);
/* The same for a keyword without which more values satisfy the node, and no fewer: it alone is left out. */
void qn__schema_refuse_keyword(qn_schema *c, int32_t node, const char *keyword, qn_status status, const char *fmt, ...)
    QN_PRINTF(5, 6);
/* The bit of a keyword in left_out; 0 for those that nothing asks for. */
uint8_t qn__schema_left_out(const char *keyword);
/* No node's own fault. */
void qn__schema_fail(qn_schema *c, qn_status status, const char *fmt, ...) QN_PRINTF(3, 4);
bool qn__schema_step(qn_schema *c); /* false, and failed, when the work becomes too much */

/* ---- nodes.c ------------------------------------------------------------------------------------------- */

/* Registers a schema and all in it; its node, -1 after a failure. */
int32_t qn__schema_read(qn_schema *c, const qn_val *root);
int32_t qn__schema_node_at(const qn_schema *c, const qn_val *value);                 /* -1: no schema stands there */
const qn_val *qn__schema_get(const qn_schema *c, int32_t node, const char *keyword); /* NULL: it has none */
int32_t qn__schema_ref(qn_schema *c, int32_t node, const qn_vstr *ref);              /* -1, and refused */
const char *qn__format_pattern(const qn_vstr *name);                                 /* NULL: not known */
/* Of a format whose pattern that is, strings of at most max characters, where counting them all takes too many states:
 * each part has a most of its own, so that not all come that might. False: not a format for which that is done. */
bool qn__format_within(qn_arena *arena, const char *pattern, int64_t min, int64_t max, qn_nfa *out, qn_status *status,
                       qn_error *err);

/* ---- shapes.c, parts.c ----------------------------------------------------------------------------------- */

int32_t qn__schema_set(qn_schema *c, const int32_t *nodes, int32_t n); /* in any order; -1 after a failure */
const qn_schema_shapes *qn__set_shapes(qn_schema *c, int32_t set);     /* NULL after a failure */
/* The same while others are being made: NULL, and nothing failed, where it leads back to one of them. */
const qn_schema_shapes *qn__probe_set(qn_schema *c, int32_t set);
bool qn__set_is_empty(qn_schema *c, int32_t set, int depth); /* provably */
/* Whether it can be shown that no value is in both. */
bool qn__sets_apart(qn_schema *c, int32_t a, int32_t b, int depth);
bool qn__shapes_apart(qn_schema *c, const qn_schema_shapes *a, const qn_schema_shapes *b, int depth);
/* Whether a member that all objects must have, and whose values are given, tells alternatives apart: a quick yes. */
bool qn__shapes_tagged(qn_schema *c, const qn_schema_shapes *const *each, uint32_t n);
bool qn__shape_apart(qn_schema *c, const qn_schema_shape *a, const qn_schema_shape *b, int depth);
bool qn__set_accepts(qn_schema *c, int32_t set, const qn_val *value);
bool qn__shape_accepts(qn_schema *c, const qn_schema_shape *s, const qn_val *value);
bool qn__shape_is_free(const qn_schema_shape *s); /* any value of its type */
bool qn__shape_is_empty(qn_schema *c, const qn_schema_shape *s, int depth);
/* False when nothing is left. */
bool qn__shape_both(qn_schema *c, const qn_schema_shape *a, const qn_schema_shape *b, qn_schema_shape *out);
qn_json_type qn__json_type(qn_val v);
bool qn__is_whole(qn_val v);
/* The set for a member of an object or an element of an array; -1 after a failure. */
int32_t qn__member_set(qn_schema *c, const qn_schema_shape *s, const char *key, size_t n);
int32_t qn__element_set(qn_schema *c, const qn_schema_shape *s, int64_t index);
int64_t qn__n_prefix(const qn_schema *c, const qn_schema_shape *s); /* elements that have a schema of their own */
/* keyword: whose value it is, that may be left out; or NULL. -1, and refused. */
int32_t qn__schema_regex(qn_schema *c, int32_t node, const char *keyword, const char *text, size_t n);
/* All that is asked of a string but the length. */
bool qn__string_nfa(qn_schema *c, const qn_schema_shape *s, bool with_length, qn_nfa *out);
bool qn__regex_finds(qn_schema *c, int32_t regex, const char *text, size_t n);

/* ---- numbers.c ------------------------------------------------------------------------------------------- */

bool qn__decimal_of(qn_schema *c, qn_val number, qn_decimal *out); /* false: not finite, or no memory */
int qn__decimal_compare(const qn_decimal *a, const qn_decimal *b);
bool qn__number_is_empty(qn_schema *c, const qn_schema_shape *s);
void qn__emit_number(qn_schema *c, const qn_schema_shape *s, int32_t from, int32_t to);

/* ---- emit.c and its parts: states and edges between `from` and `to` ---------------------------------------- */

/* The rule of a set and all that it calls; the strings in it as they are. */
void qn__emit_values(qn_schema *c, int32_t set, int32_t from, int32_t to);
void qn__emit_texts(qn_schema *c, int32_t set, const qn_text_form *form, int32_t from, int32_t to);
int32_t qn__general_rule(qn_schema *c, qn_general_rule which);
int32_t qn__set_rule(qn_schema *c, int32_t set); /* made later, when it is new; -1 after a failure */
void qn__emit_set(qn_schema *c, int32_t set, int32_t from, int32_t to);
int32_t qn__emit_state(qn_schema *c);
void qn__emit_empty(qn_schema *c, int32_t from, int32_t to);
void qn__emit_bytes(qn_schema *c, int32_t from, int32_t to, uint8_t lo, uint8_t hi);
void qn__emit_word(qn_schema *c, int32_t from, int32_t to, const char *word);
void qn__emit_call(qn_schema *c, int32_t from, int32_t to, int32_t rule);
void qn__emit_space(qn_schema *c, int32_t from, int32_t to);
void qn__emit_quote(qn_schema *c, int32_t from, int32_t to);
void qn__emit_key(qn_schema *c, const char *text, size_t n, int32_t from, int32_t to); /* of an object */
void qn__emit_null(qn_schema *c, int32_t from, int32_t to);
void qn__emit_bool(qn_schema *c, bool b, int32_t from, int32_t to);
void qn__emit_value(qn_schema *c, const qn_val *value, int32_t from, int32_t to); /* literally */
/* Code points in a string, written as Python's json.dumps does, with ensure_ascii or without. */
void qn__emit_char(qn_schema *c, int32_t from, int32_t to, uint32_t cp);
void qn__emit_chars(qn_schema *c, int32_t from, int32_t to, const qn_cp_ranges *set);
void qn__emit_text(qn_schema *c, const char *text, size_t n, int32_t from, int32_t to); /* with its quotes */
void qn__emit_nfa(qn_schema *c, const qn_nfa *nfa, bool quotes, int32_t from, int32_t to);
void qn__emit_literals(qn_schema *c, const qn_val **values, int32_t n, int32_t from, int32_t to); /* reorders them */
void qn__emit_string(qn_schema *c, const qn_schema_shape *s, int32_t from, int32_t to);
void qn__emit_array(qn_schema *c, const qn_schema_shape *s, int32_t from, int32_t to);
void qn__emit_object(qn_schema *c, const qn_schema_shape *s, int32_t from, int32_t to);

#endif
