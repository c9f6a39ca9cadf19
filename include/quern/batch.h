/* SPDX-License-Identifier: MIT */
/* quern/batch.h -- many requests over one model at once: prompts in, tokens out, each as if it were alone.
 *
 * A batcher owns a session and a thread, the executor. Every step computes the next token of all streams, then reads
 * prompts for as long as the streams may wait. An answer is the same to the bit whoever else is served, from whatever
 * part of the prompt was in the cache, and however often its stream was set back for want of cells.
 *
 *     qn_batcher *b; uint64_t id;
 *     qn_batcher_create(engine, NULL, &b, &err);
 *     qn_batcher_submit(b, &(qn_batch_request){.prompt = ids, .n_prompt = n, .fn = on_event, .ctx = me}, &id, &err);
 *     ..                                     // on_event is called with each token, at last with QN_BATCH_end
 *     qn_batcher_cancel(b, id);              // from any thread, at any time
 *     qn_batcher_destroy(b);
 *
 * Threads: all functions but destroy may be called from any thread, callbacks included. */
#ifndef QUERN_BATCH_H
#define QUERN_BATCH_H

#include <quern/base.h>
#include <quern/engine.h>
#include <quern/grammar.h>
#include <quern/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_batcher qn_batcher;

typedef struct qn_batcher_options {
    /* n_ctx cells, shared by all; n_seq, n_ends and n_logits are the batcher's to choose */
    qn_session_options session;
    int32_t n_parallel; /* streams computed at once; 0: 8; at most 128 */
    /* conversations kept after their requests that layers with a window have cells for, beside those of streams; 0: as
     * many as streams. Other layers keep what there are cells for. */
    int32_t n_cache;
    int32_t n_queue;  /* requests beyond the streams that are free; 0: 256 */
    bool no_cache;    /* every prompt is read whole */
    bool share_cache; /* prefixes are shared between requests of different keys too */
} qn_batcher_options;

/* Fails as qn_session_create does; invalid for numbers out of range and a session for embeddings; unsupported for a
 * model whose tokens see what comes after them (qn_engine_info.both_ways). */
QN_API qn_status qn_batcher_create(qn_engine *engine, const qn_batcher_options *options, qn_batcher **out,
                                   qn_error *err);
/* The options of the session that such a batcher creates: for qn_engine_options.gpu_session. invalid for numbers out of
 * range and a session for embeddings. */
QN_API qn_status qn_batcher_session(const qn_batcher_options *options, qn_session_options *out, qn_error *err);
/* What such a batcher takes with its session, as qn_engine_estimate; fails as that and as qn_batcher_create. */
QN_API qn_status qn_batcher_estimate(qn_engine *engine, const qn_batcher_options *options, qn_estimate *out,
                                     qn_error *err);
/* Cancels what is under way: each request still gets its end, before this returns. Not from a callback. */
QN_API void qn_batcher_destroy(qn_batcher *b);
/* The longest that a prompt and its answer can be: n_ctx of the session, or the positions that the model has learned
 * where they are fewer. */
QN_API int32_t qn_batcher_n_ctx(const qn_batcher *b);
QN_API int32_t qn_batcher_n_parallel(const qn_batcher *b);

/* ---- requests -------------------------------------------------------------------------------- */

/* QN_BATCH_END(name, "what ended it") */
/* clang-format off */
#define QN_BATCH_END_ROWS(QN_BATCH_END) \
    QN_BATCH_END(stop,      "the model: a token that ends a generation, or a grammar that lets nothing more come") \
    QN_BATCH_END(length,    "max_tokens were written") \
    QN_BATCH_END(context,   "prompt and answer fill the context") \
    QN_BATCH_END(cancelled, "qn_batcher_cancel or qn_batcher_destroy") \
    QN_BATCH_END(error,     "an error of this request's own")
/* clang-format on */
typedef enum qn_batch_end {
/* clang-format off */
#define QN_BATCH_END_ENUM(name, text) QN_BATCH_END_##name,
    QN_BATCH_END_ROWS(QN_BATCH_END_ENUM)
#undef QN_BATCH_END_ENUM
    QN_BATCH_END_COUNT
    /* clang-format on */
} qn_batch_end;
QN_API const char *qn_batch_end_name(qn_batch_end end); /* "stop" */

typedef enum qn_batch_event_kind {
    QN_BATCH_progress, /* part of the prompt was read; not sent for the part that gives the first token */
    QN_BATCH_token,    /* the next token; one that ends the generation is not sent */
    QN_BATCH_end       /* over: the last event of a request, always sent */
} qn_batch_event_kind;

typedef struct qn_batch_usage {
    int32_t n_prompt, n_read;               /* tokens of the prompt; of these read, and not to be read again */
    int32_t n_cached;                       /* of these found in the cache when it began */
    int32_t n_generated;                    /* tokens sent */
    int32_t n_set_back;                     /* times that its cells were taken away */
    int32_t n_left_out;                     /* of prompt and answer, when the context was full (context_shift) */
    int64_t queue_ns, read_ns, generate_ns; /* waited; then until the first token; then until now */
} qn_batch_usage;

typedef struct qn_batch_logprob {
    qn_token token;
    float logprob; /* natural logarithm of the model's own probability, before any sampler or grammar */
} qn_batch_logprob;

/* Lives during the call. */
typedef struct qn_batch_event {
    qn_batch_event_kind kind;
    uint64_t request;
    qn_token token;              /* token */
    float logprob;               /* token, where logprobs were asked for */
    const qn_batch_logprob *top; /* token: [n_top], most likely first */
    int32_t n_top;
    qn_batch_end end;      /* end */
    const qn_error *error; /* end, where that is error */
    qn_batch_usage usage;
} qn_batch_event;

/* On the executor's thread: all requests wait while it runs. */
typedef void (*qn_batch_fn)(void *ctx, const qn_batch_event *event);

#define QN_BATCH_MAX_TOP 20
typedef struct qn_batch_request {
    const qn_token *prompt; /* [n_prompt] copied */
    size_t n_prompt;
    const qn_sampler_params *sampler; /* NULL: its defaults; copied; the scratch is the batcher's */
    const qn_grammar *grammar;        /* NULL: none; stays until the request's end */
    const qn_lazy_options *lazy;      /* of the grammar; NULL: awake; copied */
    int32_t max_tokens;               /* 0: until the context is full */
    /* An answer that fills the context goes on until max_tokens, where that is given: of the oldest tokens behind the
     * first n_keep (< 0: the prompt; at most n_ctx - 4) n_discard are left out (0: half), and what stays is read anew
     * at its new places. So the answer goes on as one to the shorter text would, to the bit, whatever the model's kind
     * of positions and memory. Where others wait it makes way at that moment, and goes on when it is its turn again. A
     * prompt longer than the context is shortened by the same rule. */
    bool context_shift;
    int32_t n_keep, n_discard;
    bool logprobs;
    int32_t n_top;   /* with logprobs: alternatives to tell, 0 to QN_BATCH_MAX_TOP */
    const char *key; /* whose it is, copied; NULL: "". Keys take turns at streams; a key's cache is its own */
    bool no_cache;   /* reads its prompt whole and leaves nothing behind */
    bool goes_on;    /* the rest of an answer whose request was cancelled: before all that wait, full queue or not */
    /* Adapters, copied; they act in the order in which they were opened; NULL: those of the session's options. A step
     * computes the streams of one set, sets take turns, and nothing that is cached of one is another's. */
    const qn_lora_use *loras;
    int32_t n_loras;
    qn_batch_fn fn;
    void *ctx;
} qn_batch_request;

/* Takes all the memory that the request will need, unless it is the first with an adapter that was opened after the
 * batcher was created. `fn` may be called before this returns. invalid for a prompt that is
 * empty, longer than the context (both numbers are told; not with context_shift) or holds what is no token, for a
 * negative n_discard, and as qn_sampler_create,
 * qn_matcher_create and qn_session_set_loras; limit when the queue is full; nomem; state while it is being destroyed.
 * Without success `fn` is never called. */
QN_API qn_status qn_batcher_submit(qn_batcher *b, const qn_batch_request *request, uint64_t *id, qn_error *err);
/* Ends it within the step that is being computed. Nothing happens for a request that has ended. */
QN_API void qn_batcher_cancel(qn_batcher *b, uint64_t id);
/* A paused stream computes nothing until it is told to go on: for readers that are too slow. Where others wait for a
 * stream, it makes way: it is set back, and goes on later as if nothing had been. */
QN_API void qn_batcher_pause(qn_batcher *b, uint64_t id, bool paused);

/* ---- looking inside -------------------------------------------------------------------------- */

/* Numbers since create, and what is now; never waits for a step. */
#define QN_BATCH_STEP_BUCKETS 16
typedef struct qn_batcher_stats {
    int32_t n_streams;
    int32_t n_queued; /* who waits for a stream, those set back among them */
    int32_t n_paused; /* streams, and those that made way for others */
    /* cells of the context: held by streams alone, by streams and the tree of prefixes, by the tree alone, by nobody;
     * the four make up all */
    int32_t n_cells, n_stream_cells, n_shared_cells, n_cached_cells, n_free_cells;
    int32_t n_cached;             /* ends of prefixes in the tree: conversations that can be gone on with */
    uint64_t n_requests, n_ended; /* taken, ended */
    /* again: after a set-back, or when something was left out */
    uint64_t tokens_read, tokens_reused, tokens_generated, tokens_read_again;
    uint64_t n_steps, n_set_backs, n_evictions; /* the last: cells that the tree gave up for room */
    uint64_t n_context_shifts;
    uint64_t n_stopped;    /* of the steps, those that were stopped since somebody came or left */
    double busy_seconds;   /* spent in steps */
    double decode_seconds; /* what a step without prompts takes now, moving average; 0: not known */
    double step_seconds;   /* how long the step under way has taken; 0 when idle */
    /* steps by how long they took: the i-th those of at most 2^i / 4096 s that no bucket before it has (0.24 ms to 8
     * s); the rest took longer */
    uint64_t steps_within[QN_BATCH_STEP_BUCKETS];
} qn_batcher_stats;
QN_API void qn_batcher_get_stats(qn_batcher *b, qn_batcher_stats *out);

typedef enum qn_batch_state { QN_BATCH_queued, QN_BATCH_reading, QN_BATCH_generating, QN_BATCH_paused } qn_batch_state;
typedef struct qn_batch_info {
    uint64_t id;
    qn_batch_state state;
    int32_t stream; /* -1: queued */
    qn_batch_usage usage;
} qn_batch_info;
/* Up to n of the requests under way, streams first; returns how many there are. */
QN_API int32_t qn_batcher_list(qn_batcher *b, qn_batch_info *out, int32_t n);

#ifdef __cplusplus
}
#endif
#endif
