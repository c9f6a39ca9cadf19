/* SPDX-License-Identifier: MIT */
/* src/engine/batch_choose.c -- a stream's next token out of its logits, and what is told of it. */
#include "engine/batch.h"
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

static void accept(qn_batcher *b, qn_batch_stream *s, const float *logits, qn_token id)
{
    qn_batch_logprob top[QN_BATCH_MAX_TOP];
    qn_batch_event event = {.kind = QN_BATCH_token, .token = id};
    if (s->logprobs) {
        const float norm = log_sum(logits, b->n_vocab);
        event.logprob = number(logits[id]) - norm;
        event.top = top;
        event.n_top = largest(logits, b->n_vocab, norm, s->n_top, top);
    }
    qn_sampler_accept(s->sampler, id);
    s->tokens[s->n_tokens++] = id;
    const int64_t now = qn__now_ns();
    if (!s->first_ns) s->first_ns = now;
    qn__mutex_lock(&b->lock);
    s->usage.n_generated++;
    s->usage.read_ns = s->first_ns - s->start_ns;
    s->usage.generate_ns = now - s->first_ns;
    b->stats.tokens_generated++;
    qn__mutex_unlock(&b->lock);
    qn__batch_send(s, event);
}

void qn__batch_choose(qn_batcher *b, qn_batch_stream *s, const float *logits)
{
    qn_token id = QN_TOKEN_NONE;
    qn_error err = {0};
    if (s->matcher && qn_matcher_must_end(s->matcher)) {
        stop(s);
        return;
    }
    qn_status status = draw(s, logits, &id, &err);
    if (status == QN_OK && qn_tokenizer_is_eog(qn_engine_tokenizer(b->engine), id)) {
        stop(s);
        return;
    }
    if (status == QN_OK && s->matcher) status = qn_matcher_accept(s->matcher, id, &err);
    if (status != QN_OK) {
        qn__batch_fail(s, &err);
        return;
    }
    accept(b, s, logits, id);
    if (s->matcher && qn_matcher_must_end(s->matcher))
        stop(s);
    else if (s->n_tokens == s->cap)
        s->over = true; /* the end that submit foresaw */
}
