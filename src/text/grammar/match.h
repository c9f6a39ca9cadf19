/* SPDX-License-Identifier: MIT */
/* src/text/grammar/match.h -- a matcher: one output. What it needs to know of the grammar is in the table that it
 * shares with others; its functions here are called with the table's mutex held. */
#ifndef QN_TEXT_GRAMMAR_MATCH_H
#define QN_TEXT_GRAMMAR_MATCH_H

#include "text/grammar/table.h"
#include "text/tokenizer/models.h"

typedef struct qn_lazy_state qn_lazy_state; /* lazy.c */

typedef struct qn_matcher {
    const qn_grammar *grammar;
    const qn_tokenizer *tok;
    qn_token_trie *trie;
    qn_table *table;
    struct qn_matcher *next, **place; /* among the table's matchers */
    int32_t config;
    qn_lazy_state *lazy; /* NULL: the grammar holds from the beginning */
    char *bytes;         /* of a token */
} qn_matcher;

/* The token's bytes, into m->bytes; *n is 0 for one that is no text. */
qn_status qn__matcher_bytes(qn_matcher *m, qn_token token, size_t *n, qn_error *err);
/* Where a token or a text leads, at no change to where m stands. */
qn_status qn__matcher_try_token(qn_matcher *m, qn_token token, int32_t *to, qn_error *err);
qn_status qn__matcher_try_text(qn_matcher *m, int32_t from, const char *text, size_t len, int32_t *to, qn_error *err);

/* mask.c: the mask of where m stands; false after a failure of the table's. */
bool qn__matcher_make_mask(qn_matcher *m);

/* lazy.c: the same while the grammar sleeps. */
qn_status qn__lazy_create(qn_matcher *m, const qn_lazy_options *options, qn_lazy_state **out, qn_error *err);
qn_status qn__lazy_accept(qn_matcher *m, qn_token token, qn_error *err);
qn_status qn__lazy_accept_text(qn_matcher *m, const char *text, size_t len, qn_error *err);
qn_status qn__lazy_mask(qn_matcher *m, const uint32_t **mask, qn_error *err);
bool qn__lazy_asleep(const qn_matcher *m);
bool qn__lazy_may_end(const qn_matcher *m);
void qn__lazy_reset(qn_matcher *m);
void qn__lazy_destroy(qn_lazy_state *lazy);

#endif
