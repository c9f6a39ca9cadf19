/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/trie.h -- byte strings to ids, for finding all entries that begin at a place in a text. Edges live
 * in one hash table, so memory is linear in the bytes inserted and a step costs one probe. Immutable once built. */
#ifndef QN_TEXT_TRIE_H
#define QN_TEXT_TRIE_H

#include <quern/text.h>

typedef struct qn_trie {
    uint64_t *edges;   /* (node << 8 | byte) + 1 -> 0 is free */
    uint32_t *targets; /* beside edges: the node that the edge leads to */
    size_t n_slots;    /* a power of two */
    qn_token *values;  /* [n_nodes] QN_TOKEN_NONE where nothing ends */
    uint32_t n_nodes, cap_nodes;
} qn_trie;

#define QN_TRIE_ROOT 0u
#define QN_TRIE_DEAD UINT32_MAX

qn_trie *qn__trie_create(void); /* NULL when memory runs out; destroy accepts NULL */
void qn__trie_destroy(qn_trie *trie);
/* The last insertion of equal strings counts. False when memory or 2^32 - 2 nodes run out. */
bool qn__trie_insert(qn_trie *trie, const char *s, size_t len, qn_token value);
uint32_t qn__trie_step(const qn_trie *trie, uint32_t node, char byte); /* QN_TRIE_DEAD */
/* The longest entry that s begins with: its id and length; QN_TOKEN_NONE and 0 when there is none. */
qn_token qn__trie_longest(const qn_trie *trie, const char *s, size_t n, size_t *len);

#endif
