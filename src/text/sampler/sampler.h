/* SPDX-License-Identifier: MIT */
/* src/text/sampler/sampler.h -- what the files of the sampler share.
 *
 * A sampler is a candidate set (sampler_cands.h) that the chain's links narrow, each a function of one row of
 * QN_SAMPLER_ROWS, and the state that links carry from token to token: the history, the random stream, mirostat's mu.
 */
#ifndef QN_TEXT_SAMPLER_H
#define QN_TEXT_SAMPLER_H

#include <quern/text.h>
#include "base/thread.h"
#include "text/sampler/cands.h"
#include "text/sampler/use.h"

#define QN_SAMPLER_MAX_VOCAB \
    (1 << 24) /* bounds memory (28 bytes a token); the largest vocabularies have under 2^19 \
               */
#define QN_SAMPLER_MAX_HISTORY (1 << 20)
#define QN_SAMPLER_HISTORY     4096
#define QN_DRY_MAX_BREAKERS    256
#define QN_DRY_MAX_BYTES       40 /* of a breaker, and */
#define QN_DRY_MAX_TAIL        20 /* tokens after its first: bounds the work per token of history, as in the original */
#define QN_MIROSTAT_M          100 /* tokens from which mirostat 1 estimates the Zipf exponent, as in the paper */

/* The last tokens, contiguous: each is written twice, `cap` apart, so that any window ending now is one array. */
typedef struct qn_history {
    int32_t cap, n, at; /* `at` in [0, cap): where the next token goes */
    qn_token *tokens;   /* [2 * cap] */
} qn_history;
/* The last n tokens, oldest first; n <= history->n. */
static inline const qn_token *qn__history_last(const qn_history *h, int32_t n)
{
    return h->tokens + h->at + h->cap - n;
}

/* How often each token comes in the last `window` tokens, and which do. */
typedef struct qn_penalty_counts {
    int32_t window, n_active;
    int32_t *count;   /* [n_vocab] */
    int32_t *slot;    /* [n_vocab], of an active token in `active` */
    qn_token *active; /* [min(window, n_vocab)] */
} qn_penalty_counts;

/* A breaker is a head token and the tokens that follow it; most have no tail. */
typedef struct qn_dry_breaker {
    qn_token head;
    int32_t tail_at, n_tail;
} qn_dry_breaker;
/* What breakers are in a vocabulary. Finding it takes a walk over all tokens, so samplers of one scratch share it. */
typedef struct qn_dry_table {
    struct qn_dry_table *next; /* of the scratch, the last asked for first */
    uint64_t tokenizer;        /* its id; 0: there is none */
    char *texts;               /* the breakers, each with its NUL; qn__alloc, as all below */
    size_t n_texts;            /* bytes */
    int n_users;
    uint8_t *flags;           /* [n_vocab] QN_DRY_* */
    qn_dry_breaker *breakers; /* sorted by head */
    qn_token *tails;
    size_t n_breakers, cap_breakers, n_tails, cap_tails;
} qn_dry_table;
typedef struct qn_dry {
    int32_t window;
    int32_t *repeats; /* [window] lengths of repeats, the Z array of the reversed history */
    int32_t *longest; /* [n_vocab], zero between calls: the longest repeat a token would continue */
    qn_dry_table *table;
    qn_sampler_scratch *home; /* whose table it is */
} qn_dry;
enum { QN_DRY_head = 1, QN_DRY_single = 2 };

struct qn_sampler_scratch {
    qn_arena arena;
    qn_cands cands;
    const qn_sampler *last; /* whose candidates are in it */
    qn_mutex lock;          /* of the tables: samplers may be created and destroyed on any thread */
    qn_dry_table *tables;
};

struct qn_sampler {
    qn_arena arena;
    qn_sampler_params p; /* resolved: every default filled in; pointers are the sampler's own or NULL */
    uint64_t seed;
    qn_rng rng;
    qn_sampler_link chain[QN_SAMPLER_COUNT];
    int n_chain;
    qn_sampler_scratch *scratch, *own; /* own: the sampler's, when it was given none */
    qn_cands *cands;                   /* of the scratch */
    qn_history history;                /* cap 0 when no link looks back */
    qn_penalty_counts counts;          /* window 0 when off */
    qn_dry dry;                        /* window 0 when off */
    double mu;                         /* mirostat's */
    /* by the last sample call; QN_TOKEN_NONE before, after accept, and after a failure */
    qn_token chosen;
    double chosen_p;
    bool has_cands, reported; /* the last sample call succeeded; `out` is filled */
    qn_candidate *out;        /* [n_vocab]; lies in cands->tmp, which is only used before */
};

/* One function a row: narrows or changes s->cands, which is not empty before nor after. */
#define QN_SAMPLER_PROTO(name, letter, text) void qn__sampler_##name(qn_sampler *s);
QN_SAMPLER_ROWS(QN_SAMPLER_PROTO)
#undef QN_SAMPLER_PROTO

/* sampler_params.c: `in` with defaults filled in, or invalid with name, value and range. Fills the chain, too. */
qn_status qn__sampler_resolve(const qn_sampler_params *in, int32_t n_vocab, qn_sampler *s, qn_error *err);

/* sampler_history.c */
qn_status qn__sampler_init_history(qn_sampler *s, qn_error *err);
void qn__sampler_remember(qn_sampler *s, qn_token token);
void qn__sampler_forget(qn_sampler *s);
/* Subtracts from an effective logit, saturating: a penalty never bans. */
float qn__sampler_penalised(const qn_sampler *s, double logit, double penalty);

/* dry.c */
qn_status qn__sampler_init_dry(qn_sampler *s, const char *const *breakers, const qn_tokenizer *tok, qn_error *err);
void qn__dry_deinit(qn_dry *dry);
/* dry_table.c */
/* `breakers` may be empty. The table is used until it is released, and some are kept for the next that asks. */
qn_status qn__dry_table(qn_sampler_scratch *scratch, const char *const *breakers, const qn_tokenizer *tok,
                        qn_dry_table **out, qn_error *err);
void qn__dry_release(qn_sampler_scratch *scratch, qn_dry_table *table);
void qn__dry_free_tables(qn_sampler_scratch *scratch);
/* Heads come in ascending order. */
qn_status qn__dry_add_breaker(qn_dry_table *table, qn_token head, const qn_token *tail, size_t n_tail, qn_error *err);
bool qn__dry_same_tail(const qn_dry_table *t, const qn_dry_breaker *b, const qn_token *tail, size_t n);

/* sampler_mirostat.c: narrows the set; and learns from the token that was taken. */
void qn__sampler_mirostat(qn_sampler *s);
void qn__sampler_mirostat_learn(qn_sampler *s);

/* sampler_seed.c: never 0. */
uint64_t qn__sampler_os_seed(void);

#endif
