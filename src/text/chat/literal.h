/* SPDX-License-Identifier: MIT */
/* src/text/chat/literal.h -- values as models write them (JSON, Python, Gemma's), read symbol by symbol and turned into
 * JSON text as they come. */
#ifndef QN_TEXT_CHAT_LITERAL_H
#define QN_TEXT_CHAT_LITERAL_H

#include "text/chat/syntax.h"

#define QN_LITERAL_MAX_DEPTH 100

typedef enum qn_literal_style {
    QN_LITERAL_json,   /* comes out as it is written, but for control characters within strings */
    QN_LITERAL_python, /* '..' too, True, False, None, tuples */
    QN_LITERAL_loose   /* keys without quotes, strings between marks */
} qn_literal_style;

typedef struct qn_literal {
    qn_literal_style style;
    const qn_mark *quote; /* loose: around strings; may be empty */
    bool raw_strings;     /* python: an argument that is a string ends with its last quote, nothing is escaped */
    int phase, depth;     /* phase 0 is the beginning */
    char stack[QN_LITERAL_MAX_DEPTH]; /* the bracket that ends each */
    char quote_char;                  /* of the string; 0: the mark */
    bool is_key, fresh;               /* the string is a key; nothing came in this bracket yet */
    bool raw;                         /* this string is */
    int escape;                       /* digits of \u or \x that are still to come */
    int number;                       /* state */
    char word[16];
    int n_word;
    uint32_t code, high; /* of \u; the first half of a pair */
} qn_literal;

typedef enum qn_literal_result { QN_LITERAL_more, QN_LITERAL_done, QN_LITERAL_bad } qn_literal_result;

/* call: the arguments of a Python call, f(a=1), are read from their parenthesis on, as an object. */
void qn__literal_init(qn_literal *l, qn_literal_style style, bool call);
/* Reads from w[0 .. n), *used symbols of it, and appends JSON to `out`. At the end of all input a number or word may be
 * done; `more` then means that it is not whole. */
qn_literal_result qn__literal_read(qn_literal *l, const qn_sym *w, size_t n, bool end, size_t *used, qn_str *out);
/* A byte within a JSON string. */
void qn__put_escaped(qn_str *out, unsigned char c);

#endif
