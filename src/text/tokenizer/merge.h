/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/merge.h -- joining neighbours, best pair first: the loop that SentencePiece BPE and byte-level BPE
 * share.
 *
 * Symbols are linked both ways and candidates wait in a heap, so a text of n symbols takes n log n whatever it holds.
 * Among pairs of equal priority the leftmost goes first. */
#ifndef QN_TEXT_MERGE_H
#define QN_TEXT_MERGE_H

#include <quern/text.h>

typedef struct qn_symbol {
    uint32_t pos, len;  /* in the text; len 0: joined to a symbol before it */
    int32_t prev, next; /* -1 at the ends */
    qn_token id;        /* QN_TOKEN_NONE: no piece is spelled like this */
} qn_symbol;

/* Whether two neighbours may be joined; the smallest priority goes first, `id` is that of the result. */
typedef bool (*qn_pair_fn)(const void *ctx, const qn_symbol *left, const qn_symbol *right, uint32_t *priority,
                           qn_token *id);

typedef struct qn_candidate_pair {
    uint64_t key; /* priority, then the index of the left symbol */
    uint32_t len; /* of both together: stale when the symbols don't add up to it any more */
    int32_t right;
    qn_token id;
} qn_candidate_pair;

typedef struct qn_merger {
    qn_symbol *symbols;
    size_t n, cap;
    qn_candidate_pair *heap;
    size_t n_heap, heap_cap;
} qn_merger;

void qn__merger_deinit(qn_merger *m);
void qn__merger_clear(qn_merger *m);
/* Appends a symbol to the chain; false when memory runs out. */
bool qn__merger_add(qn_merger *m, uint32_t pos, uint32_t len, qn_token id);
/* Joins until nothing can be joined; what is left is the chain from symbol 0. False when memory runs out. */
bool qn__merger_run(qn_merger *m, qn_pair_fn pair, const void *ctx);

#endif
