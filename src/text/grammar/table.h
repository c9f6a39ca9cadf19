/* SPDX-License-Identifier: MIT */
/* src/text/grammar/table.h -- a grammar as it runs, over one vocabulary: everything that was found out so far about
 * where outputs can stand. All matchers of the grammar share it, so a second output finds what the first one met.
 *
 * Where an output stands is a configuration: a set of items, each a state and a frame. A frame is where to go on when
 * the rule ends: a set of states, each with a frame of its own. What several callers want of a rule that begins at the
 * same place is one frame, so ambiguity costs no more than its places. Frames, items and configurations are kept once
 * each and known by number; a frame's number is greater than those of the frames in it. What a byte makes of a
 * configuration is computed once. */
#ifndef QN_TEXT_GRAMMAR_TABLE_H
#define QN_TEXT_GRAMMAR_TABLE_H

#include "text/grammar/grammar.h"
#include "text/grammar/token_trie.h"

enum { QN_DEAD = -1, QN_UNKNOWN = -2, QN_MIXED = -3 }; /* instead of a configuration */

typedef struct qn_return {
    int32_t state, frame; /* state QN_OUTPUT_END: the output may end */
} qn_return;
enum { QN_OUTPUT_END = -1 };

typedef struct qn_frame {
    int32_t begin, n; /* returns, ascending */
    int32_t depth;
    int32_t next; /* of the same hash, + 1 */
    uint32_t hash;
} qn_frame;

typedef struct qn_item {
    int32_t state, frame;
    int32_t next;   /* of the same hash, + 1 */
    uint32_t stamp; /* the closure that came here last */
} qn_item;

typedef struct qn_config {
    int32_t begin, n; /* members */
    int32_t next;     /* of the same hash, + 1 */
    uint32_t hash;
    int32_t wide; /* where every character beyond ASCII leads; QN_UNKNOWN until asked, QN_MIXED: not to one place */
    bool may_end;
    int32_t *to;    /* [n_classes]; NULL until asked */
    uint32_t *mask; /* NULL until asked */
} qn_config;

typedef struct qn_store {
    qn_frame *frames;
    qn_return *returns;
    qn_item *items;
    qn_config *configs;
    int32_t *members; /* items of configurations, each ascending */
    int32_t *frame_slots, *item_slots, *config_slots;
    int32_t n_frames, n_returns, n_items, n_configs, n_members;
    int32_t cap_frames, cap_returns, cap_items, cap_configs, cap_members;
    int32_t n_frame_slots, n_item_slots, n_config_slots;
    size_t row_bytes; /* of `to` and `mask` */
} qn_store;

typedef enum qn_table_failure { QN_FINE, QN_NO_MEMORY, QN_TOO_DEEP, QN_TOO_MUCH, QN_TABLE_FULL } qn_table_failure;

typedef struct qn_call {
    int32_t state, frame; /* where the caller goes on; state QN_TAIL: where its own frame says */
    int32_t next;
} qn_call;
enum { QN_TAIL = -2 };

struct qn_matcher;

struct qn_table {
    const qn_grammar *grammar;
    qn_table *next;
    uint64_t trie_id;
    qn_token *tokens; /* [grammar->n_tokens] as this vocabulary numbers them */
    qn_mutex mutex;   /* of everything below */
    struct qn_matcher *matchers;
    int32_t start;
    qn_store s;
    size_t mask_bytes;             /* of one */
    size_t full_bytes, kept_bytes; /* even in mid-call the table does not grow by more than the one, beyond the other:
                                    * what it had when it last started anew */
    /* the set being made */
    int32_t *work, *set;
    qn_call *calls;
    qn_return *found;
    int32_t *call_of;      /* [n_rules] the last of its callers, + 1 */
    int32_t *rule_of_rank; /* [n_rules] */
    uint64_t *open_ranks;  /* a bit a rank: rules that were called and not entered yet */
    int32_t n_work, cap_work, n_set, cap_set, n_calls, cap_calls, n_found, cap_found;
    uint32_t stamp;
    bool may_end;
    qn_table_failure failure;
    int64_t effort; /* of this call: edges and items looked at */
};

/* invalid where the vocabulary lacks a token of the grammar. */
qn_status qn__table_create(const qn_grammar *g, const qn_tokenizer *tok, uint64_t trie_id, qn_table **out,
                           qn_error *err);
void qn__table_destroy(qn_table *t);

/* Where a byte leads; QN_UNKNOWN after a failure, which t->failure names. */
int32_t qn__table_step_new(qn_table *t, int32_t config, int class);
static inline int32_t qn__table_step(qn_table *t, int32_t config, uint8_t byte)
{
    const int class = t->grammar->class_of[byte];
    const int32_t *to = t->s.configs[config].to;
    if (to && to[class] != QN_UNKNOWN) return to[class];
    return qn__table_step_new(t, config, class);
}
/* Where a token as such leads; one that ends an output (is_eog) is never "any but" another. */
int32_t qn__table_step_token(qn_table *t, int32_t config, qn_token token, bool is_eog);
/* Where all characters beyond ASCII lead; QN_MIXED: not to one place. */
int32_t qn__table_step_wide(qn_table *t, int32_t config);
/* Both at once; either may be dead. */
int32_t qn__table_unite(qn_table *t, int32_t a, int32_t b);
bool qn__table_names(const qn_table *t, qn_token token); /* the grammar does */

#define QN_TABLE_FULL_BYTES ((size_t)24 << 20)
#define QN_TABLE_SOFT_BYTES ((size_t)16 << 20) /* more than that is not carried from call to call */

/* Before each use, with the mutex held: no failure, no effort so far, and room. */
qn_status qn__table_begin(qn_table *t, qn_error *err);
/* Forgets all but where matchers stand and the n configurations of `also`, which get their new numbers. */
bool qn__table_collect(qn_table *t, int32_t *also, int32_t n);
/* table.c: puts the beginning, and n configurations of `old` (NULL: none), into an empty store; numbers in place. */
bool qn__table_keep(qn_table *t, qn_store *old, int32_t *configs, int32_t n);
size_t qn__table_bytes(const qn_table *t);
/* The failure as a status. */
qn_status qn__table_failed(qn_table *t, qn_error *err);

#endif
