/* SPDX-License-Identifier: MIT */
/* src/engine/batch.h -- inside the batcher. Reading a prompt and generating are one thing: a stream has tokens, of
 * which the first n_done are in the cache, and whoever has all of them there gets the next one. A stream that was set
 * back has n_done 0, reads again what of it has left the cache, and goes on; so does one whose context was full, with
 * fewer tokens.
 *
 * `lock` guards the queue, the table of streams, what callers set in a stream, and the numbers that callers look at. It
 * is never held while something is computed or called back. The executor alone changes the rest. */
#ifndef QN_ENGINE_BATCH_H
#define QN_ENGINE_BATCH_H

#include "base/error.h"
#include "base/mem.h"
#include "base/park.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "model/prefix_tree.h"
#include <quern/batch.h>

/* A stream's next token, as some thread of the pool chose it. */
typedef struct qn_choice {
    qn_status status; /* of what went wrong, which is in the stream's `error` */
    qn_token id;
    bool stops, last; /* it ends here, without a token; after this one */
    float logprob;
    int32_t n_top;
    qn_batch_logprob top[QN_BATCH_MAX_TOP];
} qn_choice;

/* Whose prefixes they are: requests of one key (of all with share_cache) and one set of adapters. Under lock, but
 * for the root, which is the executor's. It ends when it has neither streams nor cells. */
typedef struct qn_batch_space qn_batch_space;
struct qn_batch_space {
    qn_batch_space *next;
    char *key;
    qn_lora_set loras;
    qn_tree_root root;
    int32_t n_streams; /* queued ones are among them */
};

typedef struct qn_batch_stream qn_batch_stream;
struct qn_batch_stream {
    qn_batch_stream *next; /* in the queue, or of those that end */
    uint64_t id;
    uint64_t order; /* the older the smaller: as it came, or waited anew */
    uint64_t turn;  /* of its key, see next_in_turn; under lock */
    char *key;
    qn_batch_space *space;
    qn_token *tokens;                                    /* [cap] the prompt, then what was generated */
    int32_t n_tokens, cap, n_done, n_prompt, max_tokens; /* n_prompt: of those that are still there */
    int32_t n_keep,
        n_discard;       /* when the context is full: tokens that stay at the beginning, and that go behind them */
    int32_t seq;         /* -1 while it waits in the queue */
    qn_tree_place place; /* how much of it the tree has */
    int32_t n_part;      /* tokens of it in the step being computed */
    int64_t credit;      /* tokens that it has waited for */
    uint64_t served;     /* the step that last had its adapters */
    qn_sampler *sampler;
    qn_matcher *matcher; /* NULL: no grammar */
    qn_choice choice;
    bool logprobs, no_cache;
    bool begun;   /* it had a sequence once */
    bool anew;    /* it filled the context and made way: it waits like one that comes now */
    bool goes_on; /* it is the rest of one that had */
    bool idle;    /* paused, as this step sees it */
    int32_t n_top;
    qn_batch_fn fn;
    void *ctx;
    qn_batch_usage usage;
    int64_t submit_ns, start_ns, first_ns;
    bool cancelled, paused; /* under lock */
    bool over;              /* the executor's: how it ends is below */
    qn_batch_end end;
    qn_error error;
};

/* What takes how long: seconds of steps that only decode, by number of streams (1, 2, 3 to 4, 5 to 8 ..), steps since
 * that was measured, and seconds of each token of a prompt beyond it, where nobody decodes and beside streams; and how
 * much more at a depth of 8192. 0: not known. */
enum { QN_PACE_CLASSES = 8 };
typedef struct qn_pace {
    double decode_s[QN_PACE_CLASSES], token_s[2], deep_s;
    double least_s; /* the shortest step in which nothing but prompts was read; 0: there was none */
    double lost_s;  /* of steps that were stopped, and is not made up for yet */
    double slow;    /* by how much the last steps took longer than was expected; 1 where they did not */
    double tail;    /* what one of a hundred steps that only decode takes at least, by their average; 0: not known */
    bool stops;     /* a step can be stopped */
    int32_t since[QN_PACE_CLASSES];
} qn_pace;

struct qn_batcher {
    qn_engine *engine;
    qn_session *session;
    qn_pool_user *pool;           /* samplers and masks of a step run on it */
    qn_sampler_scratch **scratch; /* one a thread */
    qn_worker *worker;
    int32_t n_vocab, n_ctx, n_batch, n_parallel, n_queue;
    int32_t n_most; /* tokens of a stream: n_ctx, or less where positions are learned and the cells are for several */
    bool no_cache, share_cache;
    qn_lora_set loras; /* of requests that name none */
    qn_tree tree;
    uint16_t *seen;            /* [n_ctx] for counting anew, in checked builds */
    qn_batch_stream **seqs;    /* [n_parallel] whose each sequence is; NULL: nobody's */
    qn_batch_stream **streams; /* [n_parallel] in the order in which they began; n_streams */
    qn_batch_item *items;      /* [n_batch] */
    qn_batch_stream **ready;   /* [n_parallel] who gets a token of the step being computed, in order of the logits */
    uint64_t step;
    const qn_lora_set *set; /* of the step */
    qn_pace pace;

    qn_mutex lock;
    qn_batch_stream *queue; /* by order; those set back are among them */
    qn_batch_space *spaces; /* in no order */
    int32_t n_streams, n_queued;
    uint64_t last_id, last_order;
    uint64_t turn; /* of who began last */
    bool stopping;
    qn_batcher_stats stats;
    int64_t step_began_ns; /* 0: none under way */
    int32_t stop_below;    /* a prompt shorter than this stops the step under way; 0: none is under way */
    _Atomic bool stop;     /* a step that may be stopped; written under lock */
    _Atomic int wake;      /* changes when there is something new */
};

/* ---- batch_seq.c: cells ---- */
bool qn__batch_same_set(const qn_lora_set *a, const qn_lora_set *b);
/* The batcher's space that is like `own`, which becomes the batcher's where there is none; it has a stream more. Under
 * lock. */
qn_batch_space *qn__batch_join_space(qn_batcher *b, qn_batch_space *own);
/* Those without streams and cells end; all: every one. Under lock. */
void qn__batch_sweep_spaces(qn_batcher *b, bool all);
void qn__batch_free_space(qn_batch_space *s);
/* A sequence for a stream that begins: the longest common prefix that it may share is in it. */
void qn__batch_begin(qn_batcher *b, qn_batch_stream *s);
/* What was read of the prompt is there for others. */
void qn__batch_keep_prompt(qn_batcher *b, qn_batch_stream *s);
/* What a step that failed has added for these. */
void qn__batch_take_back(qn_batcher *b, qn_batch_stream *const *streams, int32_t n);
/* Gives a stream's sequence away; what it read and wrote stays in the tree as long as there is room. */
void qn__batch_leave(qn_batcher *b, qn_batch_stream *s);
/* Free cells in every group for what is planned, n tokens; unused prefixes go for them. False: they are not enough. */
bool qn__batch_make_room(qn_batcher *b, int32_t n);
/* The context is full: tokens go, and the sequence begins anew with what stays. */
void qn__batch_shift(qn_batcher *b, qn_batch_stream *s);
/* Cells that a stream which begins needs beside those that streams hold now. */
int32_t qn__batch_new_cells(const qn_batcher *b, const qn_batch_stream *s);
/* Whether a stream is just reading what `s` could share: both would read it in the time that one takes. */
bool qn__batch_better_later(const qn_batcher *b, const qn_batch_stream *s);
void qn__batch_count_cells(const qn_batcher *b, qn_batcher_stats *out);
/* ---- batch_pace.c: time ---- */
/* Seconds that a step of n streams takes; 0: not known. */
double qn__pace_decode(const qn_pace *p, int32_t n);
/* Is it so long ago that this was measured that the next step should read nothing? */
bool qn__pace_decode_alone(const qn_pace *p, int32_t n);
/* Seconds that a token of a prompt takes behind `depth` others, beside n_decoding streams; a guess at first. */
double qn__pace_token(const qn_pace *p, int32_t n_decoding, double depth);
/* Seconds in which prompts of n_reading streams, which take rest_s in all, may be read while n_decoding wait (in this
 * step or for it). */
double qn__pace_seconds(const qn_pace *p, int32_t n_decoding, int32_t n_reading, double rest_s);
/* Tokens of a prompt that fit in, behind `depth` others; a few always do. */
int32_t qn__pace_fit(const qn_pace *p, int32_t n_decoding, double depth, double seconds);
/* Whether a step in which nobody gets a token may be stopped for somebody who comes. */
bool qn__pace_stoppable(const qn_pace *p);
void qn__pace_note_stopped(qn_pace *p, double seconds);
/* A step with n_decoded streams that read n_read tokens, which lay behind `depth` others on average. */
void qn__pace_note(qn_pace *p, int32_t n_decoded, int32_t n_read, double depth, double seconds);
/* ---- batch_choose.c: a token ---- */
/* The next tokens of n streams that are ready, out of the logits of the step: sent, and a stream is over where that was
 * its last. */
void qn__batch_choose(qn_batcher *b, int32_t n);
void qn__batch_send(qn_batch_stream *s, qn_batch_event event);
void qn__batch_fail(qn_batch_stream *s, const qn_error *error);
/* ---- batch_step.c: the executor ---- */
void qn__batch_run(void *batcher);
/* ---- batch.c ---- */
void qn__batch_free(qn_batch_stream *s);
/* The next turn of a key. Under lock. */
uint64_t qn__batch_turn(const qn_batcher *b, const char *key);
/* How long it has waited for a stream, or for its first token, until now. */
void qn__batch_note_wait(const qn_batch_stream *s, qn_batch_usage *out);
void qn__batch_wake(qn_batcher *b);
/* There is a prompt of n tokens, or, 0, something that comes before any: a step that reads longer ones, and in which
 * nobody gets a token, is stopped. Under lock. */
void qn__batch_stop_step(qn_batcher *b, int32_t n);

#endif
