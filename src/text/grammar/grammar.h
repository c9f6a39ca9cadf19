/* SPDX-License-Identifier: MIT */
/* src/text/grammar/grammar.h -- a compiled grammar. Rules are automata over bytes: a state has edges for ranges of
 * bytes, edges that call another rule and go on behind it, and empty edges; a rule's last state is accepting. gbnf.c
 * parses and builds, analyse.c looks the result over, table.c runs it, mask.c asks for every token of a vocabulary at
 * once, match.c is one output, lazy.c one whose grammar sleeps. */
#ifndef QN_TEXT_GRAMMAR_GRAMMAR_H
#define QN_TEXT_GRAMMAR_GRAMMAR_H

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"

#include <quern/grammar.h>

#define QN_GRAMMAR_MAX_RULES  4096
#define QN_GRAMMAR_MAX_TOKENS 256 /* named as such */

typedef enum qn_edge_kind { QN_EDGE_bytes, QN_EDGE_empty, QN_EDGE_call, QN_EDGE_token, QN_EDGE_not_token } qn_edge_kind;

typedef struct qn_edge {
    uint8_t kind, lo, hi; /* bytes lo to hi; of a call lo is 1 where nothing comes behind it: the end of the rule */
    int32_t to;           /* state */
    int32_t rule;         /* of a call; of a token and a token that is not: which of the grammar's tokens */
    int32_t next;         /* of the same state; -1 ends */
} qn_edge;

typedef struct qn_rule {
    const char *name;
    uint32_t hash;      /* of the name: rules are looked up in a list of up to 4096 */
    uint32_t at;        /* byte in the source where it was first named, for messages */
    int32_t begin, end; /* states; begin is -1 until the rule is defined */
    int32_t rank;       /* less than that of the rules that it begins with */
    bool nullable;
} qn_rule;

typedef struct qn_grammar_token {
    const char *name; /* NULL: known by id */
    qn_token id;
} qn_grammar_token;

typedef struct qn_table qn_table;
typedef struct qn_table_list {
    qn_mutex mutex;
    qn_table *first;
} qn_table_list;

struct qn_grammar {
    qn_arena arena; /* holds this struct too */
    int32_t *first; /* [n_states] first edge, -1: none */
    qn_edge *edges;
    qn_rule *rules;
    qn_grammar_token *tokens; /* that are named as such; text does not match them */
    int32_t n_states, cap_states, n_edges, cap_edges, n_rules, cap_rules, n_tokens, cap_tokens;
    int32_t root;
    uint8_t *is_end;       /* [n_states] the end of a rule */
    uint8_t class_of[256]; /* bytes that no edge tells apart, [0, n_classes) */
    int32_t n_classes;
    qn_table_list tables; /* match.c: what was found out by matching, shared by matchers */
    bool failed;          /* no memory, or too many states */
    const char **widened; /* of schemas: places that any value is taken for, and why */
    int32_t n_widened, cap_widened;
};

/* Building: an empty grammar, rules from any number of sources that call each other by name, and its completion. After
 * a failure nothing but qn_grammar_destroy. */
qn_grammar *qn__grammar_new(qn_error *err); /* NULL: no memory */
qn_status qn__grammar_add_gbnf(qn_grammar *g, const char *gbnf, qn_error *err);
/* How values are written where that is not JSON: brackets, commas, colons and numbers are JSON's. */
typedef struct qn_dialect {
    const char *null, *yes, *no;
    const char *quote;   /* around strings, a text (of no bytes, too) .. */
    qn_token token;      /* .. or this token; QN_TOKEN_NONE */
    const char *never;   /* ASCII characters that do not stand in a string as they are, ascending, at most 2 */
    const char *escapes; /* pairs: such a character, and what stands for it behind a backslash; "": it cannot come */
    bool lines;          /* tabs and line ends stand in strings as they are */
    bool bare_keys;      /* keys of objects stand without quotes where they are qn__is_bare_key */
} qn_dialect;
bool qn__is_bare_key(const char *text, size_t n); /* letters, digits, _ - . and what is not ASCII */

/* A document, parsed by qn__parse_json, for the schemas in which rules are made. What it is made of outlives it, and
 * nothing but qn__schema_close follows a failure. dialect NULL: as JSON. What is widened is added to g->widened. */
typedef struct qn_val qn_val;
typedef struct qn_schema qn_schema;
qn_status qn__schema_open(qn_grammar *g, const qn_val *root, const qn_schema_options *options,
                          const qn_dialect *dialect, qn_schema **out, qn_error *err);
void qn__schema_close(qn_schema *c); /* may be NULL */
/* Defines rule `name`: the values, without white space around them, that satisfy the schema which stands at `at` in the
 * document (NULL: any value). Its $refs are to the document. others: of these, those that are no strings. No rule of
 * another source can be called like the others that are made. Errors as of qn_grammar_create_schema; with `empty`, that
 * no value satisfies it is none: *empty tells, and nothing may call the rule then. */
qn_status qn__schema_rule(qn_schema *c, const char *name, const qn_val *at, bool others, bool *empty);
/* Strings as they are: no quotes, no escapes. */
typedef struct qn_text_form {
    const char *pattern, *never; /* ECMA-262: what is found in it, and what is not (NULL: anything) */
    const char *without;         /* a text that does not come in it; NULL: any */
    /* A text that is given by an enum or const stands as it is, too, where this says yes; NULL: none. */
    bool (*reads)(const char *text, size_t n, bool *nomem);
} qn_text_form;
/* The same for the strings, of that form, that satisfy it. */
qn_status qn__schema_texts(qn_schema *c, const char *name, const qn_val *at, const qn_text_form *form, bool *empty);
/* One rule, of the whole document. */
qn_status qn__grammar_add_schema(qn_grammar *g, const char *name, const qn_val *schema,
                                 const qn_schema_options *options, const qn_dialect *dialect, bool *empty,
                                 qn_error *err);
/* What a JSON pointer in the fragment of a URI, n bytes from its '#' on, leads to; NULL: nothing. part: room for n. */
const qn_val *qn__schema_pointer(const qn_val *from, const char *pointer, size_t n, char *part);
/* Every rule is there and none begins with itself; output follows `root`. gbnf: where a line and column are to be
 * shown, may be NULL. */
qn_status qn__grammar_complete(qn_grammar *g, const char *root, const char *gbnf, qn_error *err);
/* What g->failed means. */
qn_status qn__grammar_failure(const qn_grammar *g, qn_error *err);

int32_t qn__grammar_state(qn_grammar *g); /* -1 after a failure */
void qn__grammar_edge(qn_grammar *g, int32_t from, qn_edge edge);
int32_t qn__grammar_rule(qn_grammar *g, const char *name, size_t n, uint32_t at); /* new or known */
/* A rule of that name that nobody looks for by name. */
int32_t qn__grammar_new_rule(qn_grammar *g, const char *name, size_t n, uint32_t at);
/* Which of the grammar's tokens has that name, or that id where name is NULL: new or known; -1 after a failure. */
int32_t qn__grammar_token(qn_grammar *g, const char *name, size_t n, qn_token id);
/* Characters lo to hi from state `from` to `to`, as the UTF-8 of each. */
void qn__grammar_chars(qn_grammar *g, int32_t from, int32_t to, uint32_t lo, uint32_t hi);
void qn__grammar_drop_tables(qn_grammar *g); /* match.c */
/* analyse.c: what else the grammar is made of, see there; the rule that begins with itself is *left_recursive, or -1.
 * format for a grammar whose output could never end. */
qn_status qn__grammar_analyse(qn_grammar *g, int32_t *left_recursive, qn_error *err);
/* analyse.c: of what was made since there were first_state states and first_edge edges takes away all that leads to no
 * end: members that no value satisfies, recursion without a way out. *ends: whether anything is left of `rule`. */
qn_status qn__grammar_trim(qn_grammar *g, int32_t rule, int32_t first_state, int32_t first_edge, bool *ends,
                           qn_error *err);

#endif
