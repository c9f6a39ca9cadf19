/* SPDX-License-Identifier: MIT */
/* src/text/grammar/token_trie.h -- a vocabulary as grammars see it: a trie of the bytes of all tokens, and the tokens
 * that are made of given characters alone. It belongs to the tokenizer, which makes it when a grammar first asks; any
 * number of threads use it. About 120 bytes a token, and for each of at most QN_TOKEN_SLICES slices up to 4 more. */
#ifndef QN_TEXT_TOKEN_TRIE_H
#define QN_TEXT_TOKEN_TRIE_H

#include <quern/text.h>

#define QN_TOKEN_SLICES 12
#define QN_SLICE_CHARS  24 /* a slice's masks by length: up to that many characters */

/* In order of a walk: a node, then its children; `end` is the node behind the last one below it. */
typedef struct qn_trie_node {
    uint8_t byte;
    int32_t end;
    int32_t first, n; /* tokens that end here: ids[first .. first + n) */
} qn_trie_node;

typedef struct qn_trie {
    qn_trie_node *nodes;
    qn_token *ids; /* [n_ids] in order of their bytes */
    int32_t n_nodes, n_ids;
} qn_trie;

/* The tokens that are whole UTF-8 characters, all of a set of bytes: `ascii`, and with `wide` every longer character.
 * Of all others, how they go on behind their first characters that are of the set. */
typedef struct qn_token_slice {
    uint64_t ascii[2];
    bool wide;
    uint32_t *mask;                          /* [n_words] */
    uint32_t *by_length[QN_SLICE_CHARS + 1]; /* those of at most so many characters; NULL until asked */
    qn_trie rest;                            /* of the others, and of those that are longer: */
    int32_t rest_at[QN_SLICE_CHARS + 2];     /* nodes [rest_at[n], rest_at[n + 1]) come behind n characters */
    uint32_t *rest_bits; /* instead, where they are many: a bit for each node of the vocabulary's trie at or below which
                          * one of them ends; NULL otherwise */
    uint64_t last_use;
    int32_t n_users;
} qn_token_slice;

typedef struct qn_token_trie qn_token_trie;

/* The tokenizer's own; it is made now if it was not yet. */
qn_status qn__token_trie(const qn_tokenizer *tok, qn_token_trie **out, qn_error *err);
void qn__token_trie_destroy(qn_token_trie *t);
uint64_t qn__token_trie_id(const qn_token_trie *t); /* no other tokenizer's, ever */
const qn_trie *qn__token_trie_whole(const qn_token_trie *t);
int32_t qn__token_trie_depth(const qn_token_trie *t);
const qn_token *qn__token_trie_eog(const qn_token_trie *t, int32_t *n); /* tokens that end a generation */

/* The tokens whose bytes begin with these and go on: the first of *n, in order of their bytes. */
const qn_token *qn__token_trie_beginning(const qn_token_trie *t, const char *bytes, size_t len, size_t *n);
/* Calls `found` for each token that has these bytes before its end; stops when it returns false. */
bool qn__token_trie_inside(const qn_token_trie *t, const char *bytes, size_t len, bool (*found)(void *ctx, qn_token id),
                           void *ctx);
/* Until it is released; NULL when all are in use: walk the whole trie then. false when there is no memory. */
bool qn__token_slice_acquire(qn_token_trie *t, const uint64_t ascii[2], bool wide, qn_token_slice **out);
void qn__token_slice_release(qn_token_trie *t, qn_token_slice *slice);
/* Its tokens of at most n_chars characters; NULL when there is no memory. */
const uint32_t *qn__token_slice_mask(qn_token_trie *t, qn_token_slice *slice, int n_chars);

#endif
