/* SPDX-License-Identifier: MIT */
/* src/text/grammar/token_trie.h -- a vocabulary as grammars see it: a trie of the bytes of all tokens, and the tokens
 * that are made of given characters alone. It belongs to the tokenizer, which makes it when a grammar first asks; any
 * number of threads use it. About 80 bytes a token, and up to QN_TOKEN_SLICES times 4 bytes a token at most. */
#ifndef QN_TEXT_TOKEN_TRIE_H
#define QN_TEXT_TOKEN_TRIE_H

#include <quern/text.h>

#define QN_TOKEN_SLICES 12
#define QN_SLICE_CHARS  24 /* a slice's masks by length: up to that many characters */

/* In order of a walk: a node, then its children; `end` is the node behind the last one below it. */
typedef struct qn_trie_node {
    uint8_t byte;
    int32_t end;
    int32_t token; /* the first that ends here, + 1 */
} qn_trie_node;

/* The tokens that are whole UTF-8 characters, all of a set of bytes: `ascii`, and with `wide` every longer character.
 */
typedef struct qn_token_slice {
    uint64_t ascii[2];
    bool wide;
    uint32_t *mask;                          /* [n_words] */
    uint32_t *by_length[QN_SLICE_CHARS + 1]; /* those of at most so many characters; NULL until asked */
    uint32_t *rest; /* a bit a node: a token that is not in the slice, or of more than QN_SLICE_CHARS characters, ends
                     * there or below */
    uint64_t last_use;
    int32_t n_users, n_tokens;
} qn_token_slice;

typedef struct qn_token_trie qn_token_trie;

/* The tokenizer's own; it is made now if it was not yet. */
qn_status qn__token_trie(const qn_tokenizer *tok, qn_token_trie **out, qn_error *err);
void qn__token_trie_destroy(qn_token_trie *t);
uint64_t qn__token_trie_id(const qn_token_trie *t); /* no other tokenizer's, ever */
const qn_trie_node *qn__token_trie_nodes(const qn_token_trie *t, int32_t *n);
int32_t qn__token_trie_depth(const qn_token_trie *t);
/* The next token of the same bytes, + 1. */
int32_t qn__token_trie_same(const qn_token_trie *t, int32_t token);
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
