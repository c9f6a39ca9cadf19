/* SPDX-License-Identifier: MIT */
/* src/text/grammar/match.h -- a matcher: the stacks and configurations met so far (match.c), and the vocabulary as a
 * trie of bytes (mask.c). */
#ifndef QN_TEXT_GRAMMAR_MATCH_H
#define QN_TEXT_GRAMMAR_MATCH_H

#include "text/grammar/grammar.h"
#include "text/tokenizer/models.h"

enum { QN_DEAD = -1, QN_UNKNOWN = -2 }; /* instead of a configuration */

typedef struct qn_stack_node {
    int32_t state, parent; /* parent -1: the bottom */
    int32_t depth;
    int32_t next;   /* of the same hash, + 1 */
    uint32_t stamp; /* the closure that came here last */
} qn_stack_node;

typedef struct qn_config {
    int32_t begin, n; /* members */
    uint32_t hash;
    int32_t next; /* of the same hash, + 1 */
    bool may_end;
    int32_t *to;    /* [256] by byte; NULL until asked */
    uint32_t *mask; /* NULL until asked */
} qn_config;

typedef struct qn_token_trie qn_token_trie;
typedef struct qn_lazy_state qn_lazy_state; /* lazy.c */

struct qn_matcher {
    const qn_grammar *grammar;
    const qn_tokenizer *tok;
    qn_token_trie *trie;
    qn_token *tokens;    /* [grammar->n_tokens] */
    qn_lazy_state *lazy; /* NULL: the grammar holds from the beginning */
    int32_t config, start;
    qn_stack_node *nodes;
    qn_config *configs;
    int32_t *members; /* nodes of configurations, each ascending */
    int32_t *node_slots, *config_slots;
    uint32_t n_node_slots, n_config_slots;
    int32_t n_nodes, cap_nodes, n_configs, cap_configs, n_members, cap_members;
    size_t cached_bytes;
    /* the set being made */
    int32_t *work, *set;
    int32_t n_work, cap_work, n_set, cap_set;
    uint32_t stamp;
    bool new_may_end, nomem, too_deep;
    char *bytes; /* of a token */
};

/* Where a byte leads; QN_UNKNOWN after a failure, see qn__matcher_failure. */
int32_t qn__matcher_step(qn_matcher *m, int32_t config, uint8_t byte);
/* Where a token that the grammar names leads: QN_DEAD for one that cannot come as such; config too may be dead. */
int32_t qn__matcher_step_token(qn_matcher *m, int32_t config, qn_token token);
qn_status qn__matcher_failure(qn_matcher *m, qn_error *err);
/* The token's bytes, into m->bytes; *n is 0 for one that is no text. */
qn_status qn__matcher_bytes(qn_matcher *m, qn_token token, size_t *n, qn_error *err);
/* Where a token leads, at no change to where m stands. */
qn_status qn__matcher_try_token(qn_matcher *m, int32_t from, qn_token token, int32_t *to, qn_error *err);
qn_status qn__matcher_try_text(qn_matcher *m, int32_t from, const char *text, size_t len, int32_t *to, qn_error *err);

/* lazy.c: the same while the grammar sleeps. */
qn_status qn__lazy_accept(qn_matcher *m, qn_token token, qn_error *err);
qn_status qn__lazy_accept_text(qn_matcher *m, const char *text, size_t len, qn_error *err);
qn_status qn__lazy_mask(qn_matcher *m, const uint32_t **mask, qn_error *err);
bool qn__lazy_asleep(const qn_matcher *m);
bool qn__lazy_may_end(const qn_matcher *m);
void qn__lazy_reset(qn_matcher *m);
void qn__lazy_destroy(qn_lazy_state *lazy);

qn_status qn__token_trie_create(const qn_tokenizer *tok, qn_token_trie **out, qn_error *err);
void qn__token_trie_destroy(qn_token_trie *t);
/* The tokens whose text begins with these bytes and goes on: the first of *n, in order of their bytes. */
const qn_token *qn__token_trie_beginning(const qn_token_trie *t, const char *bytes, size_t len, size_t *n);
/* Sets the bits of all tokens that can follow; false after a failure. */
bool qn__token_trie_mask(const qn_token_trie *t, qn_matcher *m, int32_t config, uint32_t *bits);

#endif
