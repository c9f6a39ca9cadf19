/* SPDX-License-Identifier: MIT */
/* src/engine/batch.h -- inside the batcher. Reading a prompt and generating are one thing: a stream has tokens, of
 * which the first n_done are in the cache, and whoever has all of them there gets the next one. A stream that was set
 * back has n_done 0, reads again what it has said, and goes on.
 *
 * `lock` guards the queue, the table of streams, what callers set in a stream, and the numbers that callers look at. It
 * is never held while something is computed or called back. The executor alone changes the rest. */
#ifndef QN_ENGINE_BATCH_H
#define QN_ENGINE_BATCH_H

#include "base/error.h"
#include "base/mem.h"
#include "base/park.h"
#include "base/thread.h"
#include <quern/batch.h>

typedef struct qn_stream qn_stream;
struct qn_stream {
    qn_stream *next; /* in the queue, or of those that end */
    uint64_t id;     /* the older the smaller */
    char *key;
    qn_token *tokens; /* [cap] the prompt, then what was generated */
    int32_t n_tokens, cap, n_done, n_prompt, max_tokens;
    int32_t seq;      /* -1 while it waits in the queue */
    int32_t n_shared; /* cells that another stream's sequence held too when it began */
    int32_t n_part;   /* tokens of it in the step being computed */
    int32_t n_waited; /* steps since it last read */
    qn_sampler *sampler;
    qn_matcher *matcher; /* NULL: no grammar */
    bool logprobs, no_cache;
    bool begun; /* it had a sequence once */
    bool idle;  /* paused, as this step sees it */
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

/* A sequence of the session: a stream's, kept for those who begin alike, or empty. */
typedef struct qn_batch_seq {
    qn_stream *stream; /* whose it is; NULL: kept or empty */
    char *key;         /* kept: whose it was */
    qn_token *tokens;  /* kept: [n] */
    int32_t n;
    uint64_t used; /* when it was last of use, in steps */
} qn_batch_seq;

struct qn_batcher {
    qn_engine *engine;
    qn_session *session;
    qn_sampler_scratch *scratch;
    qn_worker *worker;
    int32_t n_vocab, n_ctx, n_batch, n_parallel, n_seq, n_queue;
    bool no_cache, share_cache;
    qn_batch_seq *seqs;   /* [n_seq] */
    qn_stream **streams;  /* [n_parallel] in the order in which they began; n_streams */
    qn_batch_item *items; /* [n_batch] */
    uint64_t step;
    double decode_s, token_s; /* moving averages: a step that only decodes; each token of a prompt beyond it */

    qn_mutex lock;
    qn_stream *queue; /* by id; those set back are among them */
    int32_t n_streams, n_queued;
    uint64_t last_id;
    bool stopping;
    qn_batcher_stats stats;
    int64_t step_began_ns; /* 0: none under way */
    _Atomic int wake;      /* changes when there is something new */
};

/* ---- batch_seq.c: cells ---- */
/* A sequence for a stream that begins: the longest common prefix that it may share is in it. */
void qn__batch_begin(qn_batcher *b, qn_stream *s);
/* Gives a stream's sequence away: kept for others, or emptied. */
void qn__batch_leave(qn_batcher *b, qn_stream *s, bool keep);
/* Empties the kept sequence that was of no use for the longest time; false where none is kept. */
bool qn__batch_evict(qn_batcher *b, int32_t except);
/* Whether a stream is just reading what `s` could share: both would read it in the time that one takes. */
bool qn__batch_better_later(const qn_batcher *b, const qn_stream *s);
/* ---- batch_choose.c: a token ---- */
/* The next token of a stream out of its logits: sent, and the stream is over where that was the last. */
void qn__batch_choose(qn_batcher *b, qn_stream *s, const float *logits);
void qn__batch_send(qn_stream *s, qn_batch_event event);
void qn__batch_fail(qn_stream *s, const qn_error *error);
/* ---- batch_step.c: the executor ---- */
void qn__batch_run(void *batcher);
/* ---- batch.c ---- */
void qn__batch_free(qn_stream *s);
void qn__batch_wake(qn_batcher *b);

#endif
