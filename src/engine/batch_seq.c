/* SPDX-License-Identifier: MIT */
/* src/engine/batch_seq.c -- cells: what a stream shares when it begins, what it leaves, and what goes when cells run
 * out. */
#include "engine/batch.h"
#include <string.h>

/* ---- spaces ---- */

bool qn__batch_same_set(const qn_lora_set *a, const qn_lora_set *b)
{
    if (a->n != b->n) return false;
    for (int32_t i = 0; i < a->n; i++)
        if (a->use[i].adapter != b->use[i].adapter || a->use[i].scale != b->use[i].scale) return false;
    return true;
}

qn_batch_space *qn__batch_join_space(qn_batcher *b, qn_batch_space *own)
{
    qn_batch_space *s = b->spaces;
    while (s && (strcmp(s->key, own->key) != 0 || !qn__batch_same_set(&s->loras, &own->loras))) s = s->next;
    if (!s) {
        own->next = b->spaces;
        b->spaces = s = own;
    }
    s->n_streams++;
    return s;
}

void qn__batch_sweep_spaces(qn_batcher *b, bool all)
{
    for (qn_batch_space **at = &b->spaces; *at;) {
        qn_batch_space *s = *at;
        if (!all && (s->n_streams || s->root.child >= 0)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        qn__batch_free_space(s);
    }
}

void qn__batch_free_space(qn_batch_space *s)
{
    if (!s) return;
    qn__free(s->key);
    qn__free(s);
}

/* ---- beginning ---- */

/* Of what the stream wants, what the tree has; the last token is always computed, for its logits. */
static int32_t find(const qn_batcher *b, const qn_batch_stream *s, int32_t *n_busy)
{
    *n_busy = 0;
    return s->no_cache ? 0 : qn__tree_find(&b->tree, &s->space->root, s->tokens, s->n_tokens - 1, n_busy);
}

int32_t qn__batch_new_cells(const qn_batcher *b, const qn_batch_stream *s)
{
    int32_t n_busy;
    (void)find(b, s, &n_busy);
    return s->n_tokens - n_busy;
}

bool qn__batch_better_later(const qn_batcher *b, const qn_batch_stream *s)
{
    for (int32_t i = 0; i < b->n_streams && !s->no_cache; i++) {
        const qn_batch_stream *other = b->streams[i];
        if (other->space != s->space || other->no_cache || other->idle || other->n_done >= other->n_prompt) continue;
        const int32_t n = other->n_prompt < s->n_tokens - 1 ? other->n_prompt : s->n_tokens - 1;
        int32_t k = 0;
        while (k < n && other->tokens[k] == s->tokens[k]) k++;
        if (k > other->n_done) return true;
    }
    return false;
}

void qn__batch_begin(qn_batcher *b, qn_batch_stream *s)
{
    int32_t n_busy, seq = 0;
    while (b->seqs[seq]) seq++; /* there are as many as streams */
    b->seqs[seq] = s;
    s->seq = seq;
    s->n_done = find(b, s, &n_busy);
    s->place = qn__tree_share(&b->tree, &s->space->root, seq, s->tokens, s->n_done);
}

/* ---- leaving something behind ---- */

void qn__batch_keep_prompt(qn_batcher *b, qn_batch_stream *s)
{
    if (s->no_cache || s->place.n >= s->n_prompt) return;
    const bool end = s->n_done >= s->n_prompt;
    qn__tree_add(&b->tree, &s->space->root, s->seq, &s->place, end ? s->n_prompt : s->n_done, end);
}

static void drop(qn_batcher *b, qn_batch_stream *s)
{
    (void)qn_session_seq_remove(b->session, s->seq, 0, -1, NULL); /* what can fail is asking for one that isn't there */
    b->seqs[s->seq] = NULL;
    s->seq = -1;
    s->n_done = 0;
}

void qn__batch_leave(qn_batcher *b, qn_batch_stream *s)
{
    if (s->seq < 0) return;
    if (!s->no_cache) {
        qn__tree_add(&b->tree, &s->space->root, s->seq, &s->place, s->n_done, true);
        qn__tree_use(&b->tree, s->place.node);
    }
    drop(b, s);
}

/* What is kept at the beginning is in the tree, if anything of this stream is; the rest saw what goes now, and is of no
 * use to anybody. */
void qn__batch_shift(qn_batcher *b, qn_batch_stream *s)
{
    qn_token *at = s->tokens + s->n_keep;
    if (!s->no_cache) qn__tree_use(&b->tree, s->place.node); /* ends before beginnings, so that all of it can go */
    drop(b, s);
    memmove(at, at + s->n_discard, (size_t)(s->n_tokens - s->n_keep - s->n_discard) * sizeof(*at));
    s->n_tokens -= s->n_discard;
    if (s->n_prompt > s->n_keep) s->n_prompt = s->n_keep; /* what only one answer will read again */
    s->credit = 0;
    qn__batch_begin(b, s);
    qn__mutex_lock(&b->lock);
    s->usage.n_left_out += s->n_discard;
    b->stats.n_context_shifts++;
    qn__mutex_unlock(&b->lock);
}

void qn__batch_take_back(qn_batcher *b, qn_batch_stream *const *streams, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = streams[i]->n_part; j-- > 0;)
            qn__memory_take_back(&b->session->memory, streams[i]->seq, streams[i]->n_done + j);
    qn__session_lists_anew(b->session);
}

/* ---- room ---- */

static void expect(qn_batcher *b)
{
    qn_memory *m = &b->session->memory;
    qn__memory_begin(m);
    for (int32_t i = 0; i < b->n_streams; i++) {
        const qn_batch_stream *s = b->streams[i];
        for (int32_t j = 0; j < s->n_part; j++) qn__memory_expect(m, s->seq, s->n_done + j);
    }
}

bool qn__batch_make_room(qn_batcher *b, int32_t n)
{
    int32_t seq;
    qn_memory *m = &b->session->memory;
    bool enough = true;
    uint64_t n_evicted = 0;
    expect(b);
    (void)qn__memory_make_room(m, &seq); /* tokens come in order: windows have room for them */
    for (int32_t g = 0; g < m->n_groups && enough; g++) {
        const int32_t missing = n - qn__kv_free(&m->kv[g]);
        const int32_t freed = missing > 0 ? qn__tree_evict(&b->tree, g, missing) : 0;
        if (g == 0) n_evicted = (uint64_t)freed;
        enough = missing <= freed;
    }
    qn__mutex_lock(&b->lock);
    b->stats.n_evictions += n_evicted;
    if (b->tree.emptied) qn__batch_sweep_spaces(b, false);
    qn__mutex_unlock(&b->lock);
    b->tree.emptied = false;
    return enough;
}

void qn__batch_count_cells(const qn_batcher *b, qn_batcher_stats *out)
{
    const qn_kv *kv = b->session->memory.kv;
    out->n_stream_cells = kv->n_used - kv->n_kept;
    out->n_shared_cells = kv->n_both;
    out->n_cached_cells = kv->n_kept - kv->n_both;
    out->n_free_cells = qn__kv_free(kv);
    out->n_cached = b->tree.n_leaves;
}
