/* SPDX-License-Identifier: MIT */
/* src/engine/batch_step.c -- the executor. A step: those that were cancelled leave, those that wait begin while there
 * is room, every stream that has read its tokens gets the next one, and prompts are read for as long as that may take
 * twice the time. Nothing here waits for anybody: who calls is told by a word that changes. */
#include "engine/batch.h"
#include <string.h>

enum {
    LEAST_READ = 16,      /* tokens of prompts a step, however slow */
    FIRST_READ = 64,      /* before anything was measured */
    AGE = 16,             /* tokens that a prompt counts as shorter for each step it waits */
    HEADROOM = 16,        /* cells that each stream should have before another one begins */
    ALONE_NS = 250000000, /* a step that keeps nobody waiting: a cancelled request is noticed after it */
};

/* ---- leaving ---- */

static void unlist(qn_batcher *b, const qn_stream *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_streams; i++)
        if (b->streams[i] != s) b->streams[n++] = b->streams[i];
    b->n_streams = n;
}

static void finish(qn_batcher *b, qn_stream *s)
{
    qn__batch_leave(b, s, true);
    qn_matcher_destroy(s->matcher); /* whoever is told of the end may destroy the grammar */
    s->matcher = NULL;
    qn__mutex_lock(&b->lock);
    unlist(b, s);
    b->stats.n_ended++;
    qn__mutex_unlock(&b->lock);
    qn__batch_send(s, (qn_batch_event){.kind = QN_BATCH_end,
                                       .end = s->end,
                                       .error = s->end == QN_BATCH_END_error ? &s->error : NULL});
    qn__batch_free(s);
}

static void finish_all(qn_batcher *b)
{
    for (int32_t i = 0; i < b->n_streams;)
        if (b->streams[i]->over)
            finish(b, b->streams[i]);
        else
            i++;
}

/* Those that callers cancelled. */
static void reap(qn_batcher *b)
{
    qn_stream *gone = NULL, **end = &gone;
    qn__mutex_lock(&b->lock);
    for (int32_t i = 0; i < b->n_streams; i++) {
        qn_stream *s = b->streams[i];
        s->idle = s->paused;
        if (!s->cancelled && !b->stopping) continue;
        s->over = true;
        s->end = QN_BATCH_END_cancelled;
    }
    for (qn_stream **at = &b->queue; *at;) {
        qn_stream *s = *at;
        s->idle = s->paused;
        if (!s->cancelled && !b->stopping) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        *end = s;
        end = &s->next;
        s->next = NULL;
        s->end = QN_BATCH_END_cancelled;
        b->n_queued -= !s->begun;
    }
    qn__mutex_unlock(&b->lock);
    finish_all(b);
    while (gone) {
        qn_stream *s = gone;
        gone = s->next;
        finish(b, s);
    }
}

/* The youngest gives its cells back, and waits to begin again where it was. */
static void set_back(qn_batcher *b, qn_stream *s)
{
    qn__batch_leave(b, s, false);
    s->n_part = s->n_shared = 0;
    qn__mutex_lock(&b->lock);
    unlist(b, s);
    qn_stream **at = &b->queue;
    while (*at && (*at)->id < s->id) at = &(*at)->next;
    s->next = *at;
    *at = s;
    s->usage.n_set_back++;
    b->stats.n_set_backs++;
    qn__mutex_unlock(&b->lock);
}

/* ---- beginning ---- */

static int32_t n_of_key(const qn_batcher *b, const char *key)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_streams; i++) n += strcmp(b->streams[i]->key, key) == 0;
    return n;
}

/* Those set back go on first; of the others the oldest of the key that has the fewest streams. Under lock. */
static qn_stream **next_in_turn(qn_batcher *b)
{
    qn_stream **chosen = NULL;
    int32_t fewest = INT32_MAX;
    for (qn_stream **at = &b->queue; *at; at = &(*at)->next) {
        const qn_stream *s = *at;
        if (s->idle || qn__batch_better_later(b, s)) continue;
        if (s->begun) return at;
        const int32_t n = n_of_key(b, s->key);
        if (n < fewest) {
            fewest = n;
            chosen = at;
        }
    }
    return chosen;
}

/* Whether all may read what they have to, and go on for a while. One alone always may. */
static bool has_room(const qn_batcher *b, const qn_stream *s)
{
    int64_t need = s->n_tokens + HEADROOM;
    for (int32_t i = 0; i < b->n_streams; i++) need += b->streams[i]->n_tokens - b->streams[i]->n_shared + HEADROOM;
    return b->n_streams == 0 || need <= b->n_ctx;
}

static void begin(qn_batcher *b, qn_stream *s)
{
    qn__batch_begin(b, s);
    qn__mutex_lock(&b->lock);
    if (!s->begun) {
        s->start_ns = qn__now_ns();
        s->usage.queue_ns = s->start_ns - s->submit_ns;
        s->usage.n_cached = s->n_done;
        b->stats.tokens_reused += (uint64_t)s->n_done;
    }
    s->usage.n_read = s->n_done < s->n_prompt ? s->n_done : s->n_prompt;
    qn__mutex_unlock(&b->lock);
    s->begun = true;
}

static void admit(qn_batcher *b)
{
    while (b->n_streams < b->n_parallel) {
        qn__mutex_lock(&b->lock);
        qn_stream **at = next_in_turn(b), *s = at && has_room(b, *at) ? *at : NULL;
        if (s) {
            *at = s->next;
            s->next = NULL;
            b->n_queued -= !s->begun;
            b->streams[b->n_streams++] = s;
        }
        qn__mutex_unlock(&b->lock);
        if (!s) return;
        begin(b, s);
    }
}

/* ---- what a step computes ---- */

static int32_t rest(const qn_stream *s) { return s->n_tokens - s->n_done; }

/* Tokens of prompts that may be read beside n that are decoded. Sizes are few: each makes a graph of its own. */
static int32_t budget(const qn_batcher *b, int32_t n)
{
    const double may = n ? b->decode_s : ALONE_NS * 1e-9;
    const int32_t most = b->n_batch - n;
    double tokens = b->token_s > 0 && may > 0 ? may / b->token_s : FIRST_READ;
    if (tokens > most) tokens = most;
    int32_t size = LEAST_READ;
    while (size * 2 <= (int32_t)tokens) size *= 2;
    if (size + size / 2 <= (int32_t)tokens) size += size / 2;
    return size < most ? size : most;
}

/* The one with the shortest rest reads first; who waits is counted as shorter from step to step. */
static qn_stream *next_to_read(const qn_batcher *b)
{
    qn_stream *chosen = NULL;
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < b->n_streams; i++) {
        qn_stream *s = b->streams[i];
        if (s->idle || s->n_part || rest(s) < 2) continue;
        const int64_t score = (int64_t)rest(s) - (int64_t)s->n_waited * AGE;
        if (score >= least) continue;
        least = score;
        chosen = s;
    }
    return chosen;
}

/* How many tokens of each stream; returns the sum. */
static int32_t plan(qn_batcher *b)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_streams; i++) b->streams[i]->n_part = 0;
    for (int32_t i = 0; i < b->n_streams && n < b->n_batch; i++) {
        qn_stream *s = b->streams[(b->step + (uint64_t)i) % (uint64_t)b->n_streams];
        if (s->idle || rest(s) != 1) continue;
        s->n_part = 1;
        n++;
    }
    int32_t left = budget(b, n);
    for (qn_stream *s; left > 0 && (s = next_to_read(b));) {
        s->n_part = rest(s) < left ? rest(s) : left;
        left -= s->n_part;
        n += s->n_part;
    }
    return n;
}

/* Kept sequences go first, then the youngest stream. One stream alone has room for all it may become. */
static void make_room(qn_batcher *b)
{
    if (qn__batch_evict(b, -1)) return;
    qn_stream *youngest = b->streams[0];
    for (int32_t i = 1; i < b->n_streams; i++)
        if (b->streams[i]->id > youngest->id) youngest = b->streams[i];
    set_back(b, youngest);
}

/* ---- computing ---- */

static int32_t gather(qn_batcher *b, qn_stream *const *streams, int32_t n)
{
    int32_t k = 0;
    for (int32_t i = 0; i < n; i++) {
        const qn_stream *s = streams[i];
        for (int32_t j = 0; j < s->n_part; j++) {
            const int32_t pos = s->n_done + j;
            b->items[k++] = (qn_batch_item){s->tokens[pos], pos, s->seq, pos + 1 == s->n_tokens};
        }
    }
    return k;
}

/* The streams' parts were computed: what was read is counted, and who has logits gets a token. */
static void advance(qn_batcher *b, qn_stream *const *streams, int32_t n)
{
    int32_t row = 0;
    for (int32_t i = 0; i < n; i++) {
        qn_stream *s = streams[i];
        if (!s->n_part) continue;
        const bool ready = s->n_part == rest(s), read = s->usage.n_generated == 0;
        s->n_done += s->n_part;
        s->n_waited = 0;
        qn__mutex_lock(&b->lock);
        if (read) {
            s->usage.n_read = s->n_done;
            *(s->usage.n_set_back ? &b->stats.tokens_read_again : &b->stats.tokens_read) += (uint64_t)s->n_part;
        } else if (!ready || s->n_part > 1) {
            b->stats.tokens_read_again += (uint64_t)s->n_part;
        }
        qn__mutex_unlock(&b->lock);
        if (ready)
            qn__batch_choose(b, s, qn_session_logits(b->session, row++));
        else if (read)
            qn__batch_send(s, (qn_batch_event){.kind = QN_BATCH_progress});
    }
}

/* What fails for all together is tried for each alone, so that only whose fault it is, or who finds no memory, ends. */
static void compute(qn_batcher *b, qn_stream *const *streams, int32_t n)
{
    qn_error err = {0};
    int32_t n_parts = 0;
    const qn_status status = qn_session_decode(b->session, b->items, gather(b, streams, n), &err);
    if (status == QN_OK) {
        advance(b, streams, n);
        return;
    }
    for (int32_t i = 0; i < n; i++) n_parts += streams[i]->n_part > 0;
    for (int32_t i = 0; i < n; i++) {
        if (!streams[i]->n_part) continue;
        if (n_parts == 1)
            qn__batch_fail(streams[i], &err);
        else
            compute(b, &streams[i], 1);
    }
}

static void average(double *mean, double x)
{
    if (*mean > 0 && x > 4 * *mean) x = 4 * *mean; /* a graph was compiled, or the machine was busy */
    *mean = *mean > 0 ? *mean + (x - *mean) / 8 : x;
}

static void measure(qn_batcher *b, int32_t n_decoded, int32_t n_read, double seconds)
{
    if (n_read == 0)
        average(&b->decode_s, seconds);
    else if (seconds > b->decode_s || !n_decoded)
        average(&b->token_s, (n_decoded ? seconds - b->decode_s : seconds) / n_read);
}

static void count_kept(const qn_batcher *b, qn_batcher_stats *stats)
{
    stats->n_cached = stats->n_cached_tokens = 0;
    for (int32_t i = 0; i < b->n_seq; i++) {
        stats->n_cached += b->seqs[i].tokens != NULL;
        stats->n_cached_tokens += b->seqs[i].n;
    }
}

static void publish(qn_batcher *b, double seconds)
{
    qn__mutex_lock(&b->lock);
    b->step_began_ns = 0;
    b->stats.n_free_cells = qn_session_free_cells(b->session);
    count_kept(b, &b->stats);
    b->stats.decode_seconds = b->decode_s;
    b->stats.busy_seconds += seconds;
    b->stats.n_steps += seconds > 0;
    qn__mutex_unlock(&b->lock);
}

static void step(qn_batcher *b, int32_t n)
{
    int32_t n_decoded = 0;
    const int64_t start = qn__now_ns();
    qn__mutex_lock(&b->lock);
    b->step_began_ns = start;
    qn__mutex_unlock(&b->lock);
    for (int32_t i = 0; i < b->n_streams; i++) {
        n_decoded += b->streams[i]->n_part == 1 && rest(b->streams[i]) == 1;
        b->streams[i]->n_waited++;
    }
    compute(b, b->streams, b->n_streams);
    const double seconds = (double)(qn__now_ns() - start) * 1e-9;
    measure(b, n_decoded, n - n_decoded, seconds);
    b->step++;
    finish_all(b);
    publish(b, seconds);
}

void qn__batch_run(void *batcher)
{
    qn_batcher *b = batcher;
    for (;;) {
        const int seen = atomic_load_explicit(&b->wake, memory_order_acquire);
        reap(b);
        qn__mutex_lock(&b->lock);
        const bool done = b->stopping && !b->queue;
        qn__mutex_unlock(&b->lock);
        if (done) return;
        admit(b);
        int32_t n = plan(b);
        while (n > qn_session_free_cells(b->session)) {
            make_room(b);
            n = plan(b);
        }
        if (n) {
            step(b, n);
        } else {
            publish(b, 0);
            qn__park(&b->wake, seen);
        }
    }
}
