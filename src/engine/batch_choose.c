/* SPDX-License-Identifier: MIT */
/* src/engine/batch_choose.c -- the streams' next tokens out of their logits, and what is told of them. Choosing is
 * shared by the threads of the pool, a stream at a time; telling is the executor's, in order. */
#include "engine/batch.h"
#include "text/sampler/use.h"
#include <math.h>

/* ---- sending ---- */

void qn__batch_send(qn_batch_stream *s, qn_batch_event event)
{
    event.request = s->id;
    event.usage = s->usage;
    s->fn(s->ctx, &event);
}

void qn__batch_fail(qn_batch_stream *s, const qn_error *error)
{
    s->over = true;
    s->end = QN_BATCH_END_error;
    s->error = *error;
}

static void stop(qn_batch_stream *s)
{
    s->over = true;
    s->end = QN_BATCH_END_stop;
}

/* ---- probabilities ---- */

static float number(float x) { return isnan(x) ? -INFINITY : x; }

/* Logarithm of the sum of exponentials, about the largest. */
static float log_sum(const float *logits, int32_t n)
{
    float most = -INFINITY;
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        if (number(logits[i]) > most) most = number(logits[i]);
    if (isinf(most)) return most;
    for (int32_t i = 0; i < n; i++) sum += (double)expf(number(logits[i]) - most);
    return most + (float)log(sum);
}

/* The k largest, ties to the lowest id. */
static int32_t largest(const float *logits, int32_t n, float norm, int32_t k, qn_batch_logprob *out)
{
    int32_t have = 0;
    for (int32_t i = 0; i < n && k; i++) {
        const float p = number(logits[i]) - norm;
        int32_t at = have < k ? have : k - 1;
        if (have == k && !(p > out[at].logprob)) continue;
        for (; at > 0 && p > out[at - 1].logprob; at--) out[at] = out[at - 1];
        out[at] = (qn_batch_logprob){i, p};
        if (have < k) have++;
    }
    return have;
}

/* ---- choosing ---- */

static qn_status draw(qn_batch_stream *s, const float *logits, qn_token *id, qn_error *err)
{
    const uint32_t *mask = NULL;
    if (s->matcher) QN_TRY(qn_matcher_mask(s->matcher, &mask, err));
    return qn_sampler_sample_masked(s->sampler, logits, mask, id, err);
}

static void note_probabilities(const qn_batcher *b, const qn_batch_stream *s, const float *logits, qn_choice *c)
{
    const float norm = log_sum(logits, b->n_vocab);
    c->logprob = number(logits[c->id]) - norm;
    c->n_top = largest(logits, b->n_vocab, norm, s->n_top, c->top);
}

/* On a thread of the pool: of the batcher, reads what doesn't change. */
static void choose(const qn_batcher *b, qn_batch_stream *s, const float *logits, qn_sampler_scratch *scratch)
{
    qn_choice *c = &s->choice;
    c->status = QN_OK;
    c->n_top = 0;
    c->last = false;
    c->stops = s->matcher && qn_matcher_must_end(s->matcher);
    if (c->stops) return;
    qn__sampler_use(s->sampler, scratch);
    c->status = draw(s, logits, &c->id, &s->error);
    if (c->status != QN_OK) return;
    c->stops = qn_tokenizer_is_eog(qn_engine_tokenizer(b->engine), c->id);
    if (c->stops) return;
    if (s->matcher) c->status = qn_matcher_accept(s->matcher, c->id, &s->error);
    if (c->status != QN_OK) return;
    if (s->logprobs) note_probabilities(b, s, logits, c);
    qn_sampler_accept(s->sampler, c->id);
    c->last = s->matcher && qn_matcher_must_end(s->matcher);
}

typedef struct choosing {
    qn_batcher *b;
    int32_t n;
} choosing;

static void choose_some(void *ctx, int member, int n_members)
{
    const choosing *w = ctx;
    qn_batcher *b = w->b;
    (void)n_members;
    for (int64_t begin, end; qn__team_next(qn__pool_team(b->pool), w->n, 1, &begin, &end);)
        for (; begin < end; begin++)
            choose(b, b->ready[begin], qn_session_logits(b->session, (int32_t)begin), b->scratch[member]);
}

/* Waking threads costs up to 50 us. A default sampler takes 0.8 ns a token of the vocabulary, a mask 16 us. */
enum { MASK_WORTH = 1 << 14 };
#ifdef QN_CHECKED
enum { WORTH_SHARING = 1 << 9 }; /* small models share too */
#else
enum { WORTH_SHARING = 1 << 16 };
#endif

static bool worth_sharing(const qn_batcher *b, int32_t n)
{
    int64_t work = (int64_t)n * b->n_vocab;
    for (int32_t i = 0; i < n; i++)
        if (b->ready[i]->matcher) work += MASK_WORTH;
    return n > 1 && work >= WORTH_SHARING;
}

static void tell(qn_batcher *b, qn_batch_stream *s)
{
    const qn_choice *c = &s->choice;
    const int64_t now = qn__now_ns();
    s->tokens[s->n_tokens++] = c->id;
    qn__mutex_lock(&b->lock);
    if (!s->first_ns) s->first_ns = now;
    s->usage.n_generated++;
    s->usage.read_ns = s->first_ns - s->start_ns;
    s->usage.generate_ns = now - s->first_ns;
    b->stats.tokens_generated++;
    qn__mutex_unlock(&b->lock);
    qn__batch_send(s, (qn_batch_event){.kind = QN_BATCH_token,
                                       .token = c->id,
                                       .logprob = s->logprobs ? c->logprob : 0,
                                       .top = c->n_top ? c->top : NULL,
                                       .n_top = c->n_top});
}

static void take(qn_batcher *b, qn_batch_stream *s)
{
    if (s->choice.status != QN_OK) {
        const qn_error error = s->error;
        qn__batch_fail(s, &error);
        return;
    }
    if (s->choice.stops) {
        stop(s);
        return;
    }
    tell(b, s);
    if (s->choice.last)
        stop(s);
    else if (s->usage.n_generated == s->max_tokens)
        s->over = true; /* the end that submit foresaw */
}

void qn__batch_choose(qn_batcher *b, int32_t n)
{
    choosing all = {b, n};
    if (worth_sharing(b, n))
        qn__pool_run(b->pool, choose_some, &all);
    else
        for (int32_t i = 0; i < n; i++) choose(b, b->ready[i], qn_session_logits(b->session, i), b->scratch[0]);
    for (int32_t i = 0; i < n; i++) take(b, b->ready[i]);
}
