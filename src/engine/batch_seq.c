/* SPDX-License-Identifier: MIT */
/* src/engine/batch_seq.c -- sequences of the session: which one a stream gets, what stays when it leaves, and what goes
 * when cells run out. A kept sequence is tokens that are in the cache, under the key of whoever asked for them. */
#include "engine/batch.h"
#include <string.h>

static size_t common(const qn_token *a, int32_t n_a, const qn_token *b, int32_t n_b)
{
    const int32_t n = n_a < n_b ? n_a : n_b;
    int32_t k = 0;
    while (k < n && a[k] == b[k]) k++;
    return (size_t)k;
}

static bool may_share(const qn_batcher *b, const qn_stream *s, const char *key)
{
    return b->share_cache || strcmp(s->key, key) == 0;
}

/* How much of what the stream wants the sequence has; the last token is always computed, for its logits. */
static int32_t has(const qn_batcher *b, const qn_batch_seq *q, const qn_stream *s)
{
    const qn_stream *of = q->stream;
    if (of == s || (of ? of->no_cache || !may_share(b, s, of->key) : !q->tokens || !may_share(b, s, q->key))) return 0;
    return (int32_t)common(of ? of->tokens : q->tokens, of ? of->n_done : q->n, s->tokens, s->n_tokens - 1);
}

/* The sequence that has most; of two alike a kept one, which may be taken over. */
static int32_t best(const qn_batcher *b, const qn_stream *s, int32_t *n)
{
    int32_t at = -1;
    *n = 0;
    for (int32_t i = 0; i < b->n_seq && !s->no_cache; i++) {
        const int32_t k = has(b, &b->seqs[i], s);
        if (k > *n || (k && k == *n && b->seqs[at].stream && !b->seqs[i].stream)) {
            *n = k;
            at = i;
        }
    }
    return at;
}

bool qn__batch_better_later(const qn_batcher *b, const qn_stream *s)
{
    int32_t now;
    if (s->no_cache) return false;
    (void)best(b, s, &now);
    for (int32_t i = 0; i < b->n_streams; i++) {
        const qn_stream *other = b->streams[i];
        const bool reads = other->n_tokens - other->n_done > 1;
        if (!reads || other->no_cache || other->idle || !may_share(b, s, other->key)) continue;
        const int32_t k = (int32_t)common(other->tokens, other->n_tokens, s->tokens, s->n_tokens - 1);
        if (k > other->n_done && k > now) return true;
    }
    return false;
}

/* ---- emptying ---- */

/* What can fail here is asking for a sequence that isn't there. */
static void drop(qn_batcher *b, int32_t seq)
{
    qn_batch_seq *q = &b->seqs[seq];
    (void)qn_session_seq_remove(b->session, seq, 0, -1, NULL);
    qn__free(q->key);
    qn__free(q->tokens);
    *q = (qn_batch_seq){0};
}

bool qn__batch_evict(qn_batcher *b, int32_t except)
{
    int32_t oldest = -1;
    for (int32_t i = 0; i < b->n_seq; i++)
        if (b->seqs[i].tokens && i != except && (oldest < 0 || b->seqs[i].used < b->seqs[oldest].used)) oldest = i;
    if (oldest < 0) return false;
    drop(b, oldest);
    qn__mutex_lock(&b->lock);
    b->stats.n_evictions++;
    qn__mutex_unlock(&b->lock);
    return true;
}

/* A place that is neither a stream's nor kept; there are more places than streams. */
static int32_t empty_place(qn_batcher *b, int32_t except)
{
    do {
        for (int32_t i = 0; i < b->n_seq; i++)
            if (!b->seqs[i].stream && !b->seqs[i].tokens) return i;
    } while (qn__batch_evict(b, except));
    return -1;
}

/* ---- beginning ---- */

/* Takes a kept sequence over, of which the first n tokens stay. */
static int32_t take(qn_batcher *b, int32_t seq, int32_t n)
{
    qn_batch_seq *q = &b->seqs[seq];
    const bool cut = n < q->n;
    qn__free(q->key);
    qn__free(q->tokens);
    *q = (qn_batch_seq){0};
    if (!cut || qn_session_seq_remove(b->session, seq, n, -1, NULL) == QN_OK) return n;
    drop(b, seq);
    return 0;
}

static int32_t copy(qn_batcher *b, int32_t src, int32_t dst, int32_t n)
{
    b->seqs[src].used = b->step;
    if (n && qn_session_seq_copy(b->session, src, dst, 0, n, NULL) == QN_OK) return n;
    (void)qn_session_seq_remove(b->session, dst, 0, -1, NULL); /* kinds of cells that cannot be shared: read anew */
    return 0;
}

void qn__batch_begin(qn_batcher *b, qn_stream *s)
{
    int32_t n, src = best(b, s, &n), seq = -1;
    const bool kept = src >= 0 && !b->seqs[src].stream;
    s->n_shared = src >= 0 && !kept ? n : 0;
    if (!kept || n < b->seqs[src].n) seq = empty_place(b, src);
    if (seq < 0) {
        seq = src;
        n = take(b, src, n);
    } else if (src >= 0) {
        n = copy(b, src, seq, n);
    }
    b->seqs[seq].stream = s;
    s->seq = seq;
    s->n_done = n;
}

/* ---- leaving ---- */

/* Of two sequences where one begins with all of the other, the longer one does for both. */
static bool covered(qn_batcher *b, const qn_stream *s)
{
    for (int32_t i = 0; i < b->n_seq; i++) {
        qn_batch_seq *q = &b->seqs[i];
        if (!q->tokens || strcmp(q->key, s->key) != 0) continue;
        const int32_t k = (int32_t)common(q->tokens, q->n, s->tokens, s->n_done);
        if (k == s->n_done) {
            q->used = b->step;
            return true;
        }
        if (k == q->n) drop(b, i);
    }
    return false;
}

void qn__batch_leave(qn_batcher *b, qn_stream *s, bool keep)
{
    if (s->seq < 0) return;
    qn_batch_seq *q = &b->seqs[s->seq];
    if (keep && !s->no_cache && s->n_done && !covered(b, s)) {
        qn_token *less = qn__realloc(s->tokens, (size_t)s->n_done * sizeof(*less));
        *q = (qn_batch_seq){.key = s->key, .tokens = less ? less : s->tokens, .n = s->n_done, .used = b->step};
        s->key = NULL;
        s->tokens = NULL;
    } else {
        drop(b, s->seq);
    }
    s->seq = -1;
    s->n_done = 0;
}
