/* SPDX-License-Identifier: MIT */
/* src/text/jinja/lexer.h -- a template's source to tokens, as jinja2's lexer with trim_blocks and lstrip_blocks. */
#ifndef QN_TEXT_JINJA_LEXER_H
#define QN_TEXT_JINJA_LEXER_H

#include "text/jinja/ast.h"

typedef enum qn_tok {
    QN_T_data, /* text between tags: value */
    QN_T_block_begin,
    QN_T_block_end,
    QN_T_variable_begin,
    QN_T_variable_end,
    QN_T_name,
    QN_T_string, /* value */
    QN_T_int,    /* value */
    QN_T_float,  /* value */
    QN_T_op,     /* op: up to two characters */
    QN_T_end
} qn_tok;

typedef struct qn_jtoken {
    qn_tok kind;
    uint32_t at, n; /* bytes of the source */
    char op[3];
    qn_val value;
} qn_jtoken;

typedef struct qn_jtokens {
    qn_jtoken *items;
    size_t n, cap;
} qn_jtokens;

/* The last token is QN_T_end. Raises in j->heap. */
void qn__jinja_lex(qn_jinja *j, qn_jtokens *out);

/* Raises "line L, column C: ..." */
qn_val qn__jinja_bad(qn_jinja *j, uint32_t at, const char *fmt, ...) QN_PRINTF(3, 4);

#endif
