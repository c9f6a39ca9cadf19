/* SPDX-License-Identifier: MIT */
/* src/text/chat/constrain.h -- a grammar of a model's own syntax being made: GBNF text for what stands around values
 * (constrain.c, constrain_channels.c), rules for texts that end with a mark (until.c), and values by the tools' schemas
 * (constrain_values.c, constrain_tags.c). */
#ifndef QN_TEXT_CHAT_CONSTRAIN_H
#define QN_TEXT_CHAT_CONSTRAIN_H

#include "text/chat/derive.h"
#include "text/grammar/grammar.h"

typedef struct qn_constrain_tags qn_constrain_tags;

typedef struct qn_constrain {
    const qn_found *found;
    const qn_tokenizer *tok;
    qn_chat_reader *reader; /* at the prompt's end: its state, its tools, the tokens of marks */
    qn_grammar *g;
    qn_str text; /* GBNF */
    int n_rules;
    /* of the tool, or the answer, whose rules are being made */
    bool strict; /* what cannot be held is an error */
    qn_val root; /* its schema */
    qn_schema *schema;
    qn_dialect dialect;
    qn_constrain_tags *tags; /* values that are tags within tags */
    int32_t n_tags, cap_tags;
    qn_error *err;
    qn_status status; /* sticky */
} qn_constrain;

typedef struct qn_constrain_tool {
    qn_val name, parameters;
    bool strict;
    int rule;      /* of a call, from its name on */
    int arguments; /* .. of its arguments, where they are JSON */
} qn_constrain_tool;

static inline bool qn__constraining(const qn_constrain *c) { return c->status == QN_OK && !c->text.failed; }
void qn__constrain_fail(qn_constrain *c, qn_status status, const char *fmt, ...) QN_PRINTF(3, 4);
bool qn__constrain_heap(qn_constrain *c); /* false, and failed, where values found no room */
int qn__constrain_rule(qn_constrain *c);  /* the number of a new rule, whose name is "rN" */
#define PUT(c, ...) qn__str_printf(&(c)->text, __VA_ARGS__)

/* Literal text, marks in it that are tokens as these; `id` and digits as wildcards. */
void qn__put_literal(qn_constrain *c, const char *s, size_t n, bool digits);
void qn__put_mark(qn_constrain *c, qn_mark_id id);
/* The token that a mark's text is; QN_TOKEN_NONE: plain text. */
qn_token qn__mark_token(const qn_constrain *c, const char *s, size_t n);
/* Any text up to and with a text, which may be a token. `ends`: it may also end before. Appends a reference. */
void qn__put_until(qn_constrain *c, const char *end, size_t n, bool ends);
/* Any text, or none, in which neither of the two comes. Appends a reference. */
void qn__put_without(qn_constrain *c, qn_slice one, qn_slice other);
/* A mark behind the last call, up to what ends a generation. */
void qn__put_last(qn_constrain *c, qn_mark_id id);
bool qn__is_eog_mark(const qn_constrain *c, const char *s, size_t n);

/* Messages with headers: what may come now, rule "messages", in which these tools are called (n_tools 0: none is).
 * False where that cannot be held from here on. */
bool qn__channel_rules(qn_constrain *c, const qn_constrain_tool *tools, int n_tools, bool several);

/* A value by the schema that stands at `at` in c->root, by its rule's number. */
int qn__json_rule(qn_constrain *c, const qn_val *at);
/* How values in arguments are written; false: as JSON. */
bool qn__arguments_dialect(qn_constrain *c, qn_dialect *out);
/* Arguments in the syntax's own way of writing values, from behind the name; rules are defined, the number of the one
 * to call is returned. */
int qn__arguments_rule(qn_constrain *c);

#endif
