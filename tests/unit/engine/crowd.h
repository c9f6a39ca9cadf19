/* SPDX-License-Identifier: MIT */
/* tests/unit/engine/crowd.h -- requests of many kinds, what each must get (computed without the batcher: a session, a
 * sampler, a matcher), and a callback that notes what it does get. */
#ifndef QN_TEST_ENGINE_CROWD_H
#define QN_TEST_ENGINE_CROWD_H

#include "rig.h"
#include <pthread.h>
#include <stdatomic.h>
#include <quern/batch.h>

enum { CROWD_PROMPT = 60, CROWD_ANSWER = 60 };

typedef struct crowd_answer {
    qn_token tokens[CROWD_ANSWER];
    float logprobs[CROWD_ANSWER];
    int n;
    qn_batch_end end;
} crowd_answer;

typedef struct crowd_request {
    qn_batcher *b;
    qn_token prompt[CROWD_PROMPT];
    int n_prompt, n_answer;
    char key[8];
    qn_sampler_params sampler;
    const qn_grammar *grammar;
    qn_lora_use loras[2];
    int n_loras;
    bool context_shift;
    int n_keep, n_discard;
    crowd_answer want, got;
    int left_out;     /* wanted */
    int cancel_after; /* tokens; -1: never */
    int pause_after;  /* tokens; 0: never */
    uint64_t id;
    qn_batch_usage usage;
    qn_error error;
    _Atomic bool ended;
    _Atomic int n_got;
} crowd_request;

/* Not for cmocka's checks: it is another thread. */
static inline void crowd_event(void *ctx, const qn_batch_event *e)
{
    crowd_request *r = ctx;
    if (e->kind == QN_BATCH_token && r->got.n < CROWD_ANSWER) {
        r->got.logprobs[r->got.n] = e->logprob;
        r->got.tokens[r->got.n++] = e->token;
        atomic_store(&r->n_got, r->got.n);
        if (r->got.n == r->cancel_after) qn_batcher_cancel(r->b, e->request);
        if (r->got.n == r->pause_after) qn_batcher_pause(r->b, e->request, true);
    }
    if (e->kind != QN_BATCH_end) return;
    r->got.end = e->end;
    r->usage = e->usage;
    if (e->error) r->error = *e->error;
    atomic_store(&r->ended, true);
}

static inline qn_status crowd_submit(qn_batcher *b, crowd_request *r, qn_error *err)
{
    r->b = b;
    r->got = (crowd_answer){0};
    atomic_store(&r->ended, false);
    atomic_store(&r->n_got, 0);
    return qn_batcher_submit(b,
                             &(qn_batch_request){.prompt = r->prompt,
                                                 .n_prompt = (size_t)r->n_prompt,
                                                 .sampler = &r->sampler,
                                                 .grammar = r->grammar,
                                                 .max_tokens = r->n_answer,
                                                 .context_shift = r->context_shift,
                                                 .n_keep = r->n_keep,
                                                 .n_discard = r->n_discard,
                                                 .logprobs = true,
                                                 .n_top = 2,
                                                 .key = r->key,
                                                 .loras = r->loras,
                                                 .n_loras = r->n_loras,
                                                 .fn = crowd_event,
                                                 .ctx = r},
                             &r->id, err);
}

static inline void crowd_wait(const crowd_request *r)
{
    while (!atomic_load(&r->ended)) usleep(200);
}

/* Sessions for crowd_expect: one does for all requests, since nothing is reused. */
static inline qn_session *crowd_session_of(qn_engine *e, int n_ctx)
{
    return rig_session(e, (qn_session_options){.n_ctx = n_ctx});
}

static inline qn_session *crowd_session(qn_engine *e) { return crowd_session_of(e, CROWD_PROMPT + CROWD_ANSWER); }

/* Another token behind n others; returns how many there are then. Where they do not fit, some go, by llama-server's
 * rule, and what is left is read from its beginning. */
static inline int crowd_add(qn_session *s, crowd_request *r, qn_token *seen, int n, qn_token id)
{
    seen[n++] = id;
    if (!r->context_shift || n <= qn_session_n_ctx(s)) {
        rig_feed(s, 0, &id, 1);
        return n;
    }
    int keep = r->n_keep < 0 ? r->n_prompt : r->n_keep;
    if (keep > qn_session_n_ctx(s) - 4) keep = qn_session_n_ctx(s) - 4;
    int discard = r->n_discard ? r->n_discard : (n - keep) / 2;
    if (discard > n - keep - 1) discard = n - keep - 1;
    for (int i = keep; i + discard < n; i++) seen[i] = seen[i + discard];
    r->left_out += discard;
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    rig_feed(s, 0, seen, n - discard);
    return n - discard;
}

static inline void crowd_expect(qn_session *s, crowd_request *r)
{
    qn_token seen[CROWD_PROMPT + CROWD_ANSWER];
    int n_seen = r->n_prompt;
    const qn_engine *e = qn_session_engine(s);
    qn_sampler *sampler = NULL;
    qn_matcher *matcher = NULL;
    const qn_tokenizer *tok = qn_engine_tokenizer(e);
    crowd_answer *want = &r->want;
    MUST(qn_sampler_create(&r->sampler, RIG_VOCAB, tok, &sampler, err));
    if (r->grammar) MUST(qn_matcher_create(r->grammar, tok, &matcher, err));
    for (int i = 0; i < r->n_prompt; i++) qn_sampler_accept(sampler, r->prompt[i]);
    MUST(qn_session_set_loras(s, r->loras, r->n_loras, err));
    memcpy(seen, r->prompt, (size_t)n_seen * sizeof(*seen));
    rig_feed(s, 0, seen, n_seen);
    r->left_out = 0;
    *want = (crowd_answer){.end = QN_BATCH_END_length};
    while (want->n < r->n_answer) {
        const uint32_t *mask = NULL;
        qn_token id;
        const float *logits = qn_session_logits(s, -1);
        if (matcher) MUST(qn_matcher_mask(matcher, &mask, err));
        MUST(qn_sampler_sample_masked(sampler, logits, mask, &id, err));
        want->end = QN_BATCH_END_stop;
        if (qn_tokenizer_is_eog(tok, id)) break;
        double sum = 0;
        for (int i = 0; i < RIG_VOCAB; i++) sum += exp((double)logits[i]);
        want->logprobs[want->n] = (float)((double)logits[id] - log(sum));
        want->tokens[want->n++] = id;
        qn_sampler_accept(sampler, id);
        if (matcher) MUST(qn_matcher_accept(matcher, id, err));
        if (matcher && qn_matcher_must_end(matcher)) break;
        want->end = QN_BATCH_END_length;
        if (want->n < r->n_answer) n_seen = crowd_add(s, r, seen, n_seen, id);
    }
    qn_matcher_destroy(matcher);
    qn_sampler_destroy(sampler);
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
}

/* Request number i of a crowd of many kinds: prompts that share their beginnings with others of the key, every kind of
 * sampler, a grammar now and then, none, one, the other or both of two adapters (NULL: there are none). */
static inline void crowd_make(qn_session *s, crowd_request *r, int i, const qn_grammar *grammar,
                              const qn_lora_use *adapters)
{
    static const qn_sampler_params samplers[] = {
        {.greedy = true},
        {.temperature = 1.5f},
        {.repeat_penalty = 1.3f, .presence_penalty = 0.5f, .penalty_last_n = 30},
        {.mirostat = 2},
        {.top_k = 5, .min_p = 0.01f},
        {.dry_multiplier = 0.8f, .xtc_probability = 0.5f},
        {.order = "tk", .dynatemp_range = 0.3f},
    };
    *r = (crowd_request){.n_prompt = 1 + (i * 37) % (i % 3 ? 20 : CROWD_PROMPT),
                         .n_answer = 1 + (i * 23) % CROWD_ANSWER,
                         .sampler = samplers[i % 7],
                         .grammar = i % 4 == 3 ? grammar : NULL,
                         .cancel_after = -1};
    for (int k = 0; k < 2; k++)
        if (adapters && (i / 3) & (1 << k)) r->loras[r->n_loras++] = adapters[k];
    snprintf(r->key, sizeof(r->key), "key%d", i % 3);
    r->sampler.seed = 100 + (uint64_t)i;
    rig_story(i % 5, r->prompt, r->n_prompt);
    if (i % 2) r->prompt[r->n_prompt - 1] = rig_token(i, 3);
    crowd_expect(s, r);
}

#define CROWD_SAME(r) crowd_same((r), __FILE__, __LINE__)
static inline void crowd_same(const crowd_request *r, const char *file, int line)
{
    if (r->got.end != r->want.end)
        fail_msg("%s:%d: ended with %s (%s), not %s", file, line, qn_batch_end_name(r->got.end), r->error.text,
                 qn_batch_end_name(r->want.end));
    if (r->got.n != r->want.n) fail_msg("%s:%d: %d tokens, %d expected", file, line, r->got.n, r->want.n);
    for (int i = 0; i < r->got.n; i++) {
        if (r->got.tokens[i] != r->want.tokens[i])
            fail_msg("%s:%d: token %d is %d, alone %d", file, line, i, r->got.tokens[i], r->want.tokens[i]);
        if (!(fabsf(r->got.logprobs[i] - r->want.logprobs[i]) < 1e-4f))
            fail_msg("%s:%d: token %d has %g, %g expected", file, line, i, (double)r->got.logprobs[i],
                     (double)r->want.logprobs[i]);
    }
}

static inline qn_batcher *crowd_batcher(qn_engine *e, qn_batcher_options o)
{
    qn_batcher *b = NULL;
    if (!o.session.n_batch) o.session.n_batch = 32;
    MUST(qn_batcher_create(e, &o, &b, err));
    return b;
}

/* Holds the executor at the first token of a request: what is asked for until it is opened is there all at once,
 * whoever gets the processor meanwhile. */
typedef struct crowd_gate {
    qn_token prompt[3];
    _Atomic bool reached, open, ended;
} crowd_gate;

static inline void crowd_at_gate(void *ctx, const qn_batch_event *e)
{
    crowd_gate *g = ctx;
    if (e->kind == QN_BATCH_end) atomic_store(&g->ended, true);
    if (e->kind != QN_BATCH_token) return;
    atomic_store(&g->reached, true);
    while (!atomic_load(&g->open)) usleep(100);
}

/* The gate outlives the batcher, or is waited for. */
static inline void crowd_hold(qn_batcher *b, crowd_gate *g, int story)
{
    const qn_logit_bias no_end = {2, -INFINITY};
    uint64_t id;
    *g = (crowd_gate){.open = false};
    rig_story(story, g->prompt, 3);
    MUST(qn_batcher_submit(
        b,
        &(qn_batch_request){.prompt = g->prompt,
                            .n_prompt = 3,
                            .sampler = &(qn_sampler_params){.logit_bias = &no_end, .n_logit_bias = 1, .seed = 1},
                            .max_tokens = 1,
                            .key = "gate",
                            .fn = crowd_at_gate,
                            .ctx = g},
        &id, err));
    while (!atomic_load(&g->reached)) usleep(100);
}

static inline void crowd_go(crowd_gate *g) { atomic_store(&g->open, true); }

/* When nothing is under way, what isn't free is held by kept sequences alone. */
static inline void crowd_quiet(qn_batcher *b, qn_batcher_stats *out)
{
    for (int i = 0; i < 500000; i++) {
        qn_batcher_get_stats(b, out);
        if (!out->n_streams && !out->n_queued && out->step_seconds == 0 && out->n_ended == out->n_requests) return;
        usleep(200);
    }
    fail_msg("%d streams, %d queued after minutes", out->n_streams, out->n_queued);
}

#endif
