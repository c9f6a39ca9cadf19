/* SPDX-License-Identifier: MIT */
/* src/engine/batch_step.c -- the executor. A step: those that were cancelled leave, those that wait begin while there
 * is room, every stream that has read its tokens gets the next one, and prompts are read for as long as that may take
 * twice the time. Nothing here waits for anybody: who calls is told by a word that changes. */
#include "engine/batch.h"
#include <string.h>

enum {
    AGE = 16, /* tokens that a prompt counts as shorter for each step in which others read, until it has read so many */
    HEADROOM = 16,   /* cells that each stream should have before another one begins */
    SHORT = 32,      /* tokens of a prompt that is read at once, one a step: a question need not wait for three steps */
    FEW_CELLS = 1024 /* a checked build counts up to so many anew after each step, more after each sixteenth */
};

/* ---- leaving ---- */

static void unlist(qn_batcher *b, const qn_batch_stream *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_streams; i++)
        if (b->streams[i] != s) b->streams[n++] = b->streams[i];
    b->n_streams = n;
}

static void finish(qn_batcher *b, qn_batch_stream *s)
{
    qn__batch_leave(b, s);
    qn_matcher_destroy(s->matcher); /* whoever is told of the end may destroy the grammar */
    s->matcher = NULL;
    qn__mutex_lock(&b->lock);
    unlist(b, s);
    s->space->n_streams--;
    qn__batch_sweep_spaces(b, false);
    b->stats.n_ended++;
    qn__mutex_unlock(&b->lock);
    qn__batch_note_wait(s, &s->usage);
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
    qn_batch_stream *gone = NULL, **end = &gone;
    qn__mutex_lock(&b->lock);
    for (int32_t i = 0; i < b->n_streams; i++) {
        qn_batch_stream *s = b->streams[i];
        s->idle = s->paused;
        if (!s->cancelled && !b->stopping) continue;
        s->over = true;
        s->end = QN_BATCH_END_cancelled;
    }
    for (qn_batch_stream **at = &b->queue; *at;) {
        qn_batch_stream *s = *at;
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
        qn_batch_stream *s = gone;
        gone = s->next;
        finish(b, s);
    }
}

/* It gives its cells back, and waits to begin again where it was: before all that are younger, or anew. */
static void set_back(qn_batcher *b, qn_batch_stream *s, bool anew)
{
    qn__batch_leave(b, s);
    s->n_part = 0;
    qn__mutex_lock(&b->lock);
    unlist(b, s);
    s->anew = anew;
    if (anew) s->order = ++b->last_order;
    if (anew) s->turn = qn__batch_turn(b, s->key);
    qn_batch_stream **at = &b->queue;
    while (*at && (*at)->order < s->order) at = &(*at)->next;
    s->next = *at;
    *at = s;
    s->usage.n_set_back++;
    b->stats.n_set_backs++;
    qn__mutex_unlock(&b->lock);
}

/* ---- beginning ---- */

static int32_t rest(const qn_batch_stream *s) { return s->n_tokens - s->n_done; }

static int32_t n_of_key(const qn_batcher *b, const char *key)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_streams; i++) n += strcmp(b->streams[i]->key, key) == 0;
    return n;
}

/* Those set back, and those that go on, come first; of the others one of the key that has the fewest streams. Of keys
 * with as few, as all are where there is one stream, the one whose turn it is: a request's turn is the one behind its
 * key's last, or that of whoever began last where its key has none; the oldest first. Under lock. */
static qn_batch_stream **next_in_turn(qn_batcher *b)
{
    qn_batch_stream **chosen = NULL;
    int32_t fewest = INT32_MAX;
    uint64_t turn = UINT64_MAX;
    for (qn_batch_stream **at = &b->queue; *at; at = &(*at)->next) {
        const qn_batch_stream *s = *at;
        if (s->idle || qn__batch_better_later(b, s)) continue;
        if ((s->begun || s->goes_on) && !s->anew) return at;
        const int32_t n = n_of_key(b, s->key);
        if (n < fewest || (n == fewest && s->turn < turn)) {
            fewest = n;
            turn = s->turn;
            chosen = at;
        }
    }
    return chosen;
}

/* Streams that have no room for another token, and may go on. What stays of their texts is read anew in any case: where
 * somebody waits they make way, since they may never end. */
static void shift_all(qn_batcher *b)
{
    qn__mutex_lock(&b->lock);
    const bool waits = next_in_turn(b) != NULL;
    qn__mutex_unlock(&b->lock);
    for (int32_t i = b->n_streams; i-- > 0;) {
        qn_batch_stream *s = b->streams[i];
        if (s->n_tokens < s->cap) continue;
        qn__batch_shift(b, s);
        if (waits) set_back(b, s, true);
    }
}

/* Whether all may read what they have to, and go on for a while. One alone always may. */
static bool has_room(const qn_batcher *b, const qn_batch_stream *s)
{
    const qn_kv *kv = b->session->memory.kv;
    int64_t need = (int64_t)kv->n_used - kv->n_kept + kv->n_both; /* what streams hold now */
    if (b->n_streams == 0) return true;
    for (int32_t i = 0; i < b->n_streams; i++) need += rest(b->streams[i]) + HEADROOM;
    return need + qn__batch_new_cells(b, s) + HEADROOM <= b->n_ctx;
}

/* Under lock. What was left out of the prompt was read once. */
static void note_read(qn_batch_stream *s)
{
    s->usage.n_read = s->usage.n_prompt - (s->n_done < s->n_prompt ? s->n_prompt - s->n_done : 0);
}

static void begin(qn_batcher *b, qn_batch_stream *s)
{
    qn__batch_begin(b, s);
    s->served = b->step;
    qn__mutex_lock(&b->lock);
    if (!s->begun) {
        s->start_ns = qn__now_ns();
        s->usage.queue_ns = s->start_ns - s->submit_ns;
        s->usage.n_cached = s->n_done;
        b->stats.tokens_reused += (uint64_t)s->n_done;
    }
    if (s->turn > b->turn) b->turn = s->turn;
    note_read(s);
    s->begun = true;
    s->anew = false;
    qn__mutex_unlock(&b->lock);
}

/* One whose reader does not read, the youngest of them; NULL: all compute. */
static qn_batch_stream *youngest_idle(const qn_batcher *b)
{
    qn_batch_stream *youngest = NULL;
    for (int32_t i = 0; i < b->n_streams; i++)
        if (b->streams[i]->idle && (!youngest || b->streams[i]->order > youngest->order)) youngest = b->streams[i];
    return youngest;
}

/* Whether a stream was cancelled, or reads again, behind reap: the next step has to see it first. Under lock. */
static bool behind_reap(const qn_batcher *b)
{
    bool any = b->stopping;
    for (int32_t i = 0; i < b->n_streams; i++)
        any |= b->streams[i]->cancelled || (b->streams[i]->idle && !b->streams[i]->paused);
    return any;
}

/* Who waits gets the place of one that is paused: a reader that does not read holds up nobody else. Whoever came before
 * the last look was seen by it, and stops no step. */
static void admit(qn_batcher *b)
{
    for (;;) {
        qn_batch_stream *s = NULL;
        qn__mutex_lock(&b->lock);
        qn_batch_stream **at = next_in_turn(b);
        const bool waits = at != NULL;
        if (waits && b->n_streams < b->n_parallel && has_room(b, *at)) {
            s = *at;
            *at = s->next;
            s->next = NULL;
            b->n_queued -= !s->begun;
            b->streams[b->n_streams++] = s;
        }
        qn_batch_stream *idle = waits && !s ? youngest_idle(b) : NULL;
        if (!s && !idle) atomic_store_explicit(&b->stop, behind_reap(b), memory_order_relaxed);
        qn__mutex_unlock(&b->lock);
        if (s)
            begin(b, s);
        else if (idle)
            set_back(b, idle, false);
        else
            return;
    }
}

/* ---- what a step computes ---- */

/* A step has one set of adapters: that of the stream which has waited for its own longest. */
static const qn_lora_set *next_set(const qn_batcher *b)
{
    const qn_batch_stream *chosen = NULL;
    for (int32_t i = 0; i < b->n_streams; i++)
        if (!b->streams[i]->idle && (!chosen || b->streams[i]->served < chosen->served)) chosen = b->streams[i];
    return chosen ? &chosen->space->loras : NULL;
}

static bool takes_part(const qn_batcher *b, const qn_batch_stream *s)
{
    return !s->idle && (&s->space->loras == b->set || qn__batch_same_set(&s->space->loras, b->set));
}

/* Streams that get a token whenever it is their set's turn. */
static int32_t n_decoding(const qn_batcher *b)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_streams; i++) n += !b->streams[i]->idle && rest(b->streams[i]) == 1;
    return n;
}

/* The one with the shortest rest reads first; who waits is counted as shorter from step to step, and what that is worth
 * is used up by reading: a long one that has waited goes on to its end. */
static qn_batch_stream *next_to_read(const qn_batcher *b)
{
    qn_batch_stream *chosen = NULL;
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < b->n_streams; i++) {
        qn_batch_stream *s = b->streams[i];
        if (s->n_part || rest(s) < 2 || !takes_part(b, s)) continue;
        const int64_t score = rest(s) - s->credit;
        if (score >= least) continue;
        least = score;
        chosen = s;
    }
    return chosen;
}

/* Seconds in which prompts may be read beside or before n_waiting streams. */
static double time_to_read(const qn_batcher *b, int32_t n_waiting)
{
    int32_t n = 0;
    double rest_s = 0;
    for (int32_t i = 0; i < b->n_streams; i++) {
        const qn_batch_stream *s = b->streams[i];
        if (rest(s) < 2 || !takes_part(b, s)) continue;
        n++;
        rest_s += rest(s) * qn__pace_token(&b->pace, n_waiting, (s->n_done + s->n_tokens) * 0.5);
    }
    return qn__pace_seconds(&b->pace, n_waiting, n, rest_s);
}

/* Gives prompts their parts of a step of n tokens so far; returns how many there are with them. The first gets one even
 * where there is no time to read: where who writes has another set of adapters, the step would be empty. */
static int32_t plan_reading(qn_batcher *b, int32_t n, int32_t n_waiting)
{
    double left = time_to_read(b, n_waiting);
    int32_t most = b->n_batch - n;
    bool first = true;
    for (qn_batch_stream *s; most > 0 && (first || left > 0) && (s = next_to_read(b)); first = false) {
        const int32_t fit = qn__pace_fit(&b->pace, n_waiting, s->n_done, left);
        s->n_part = rest(s) < fit || (first && rest(s) <= SHORT) ? rest(s) : fit;
        if (s->n_part > most) s->n_part = most;
        left -= s->n_part * qn__pace_token(&b->pace, n_waiting, s->n_done);
        most -= s->n_part;
        n += s->n_part;
        /* who gets a first token out of a step where nobody waits should not wait for anything else */
        if (!n_waiting && s->n_part == rest(s)) break;
    }
    return n;
}

/* How many tokens of each stream; returns the sum. */
static int32_t plan(qn_batcher *b)
{
    int32_t n = 0;
    b->set = next_set(b);
    for (int32_t i = 0; i < b->n_streams; i++) b->streams[i]->n_part = 0;
    for (int32_t i = 0; i < b->n_streams && n < b->n_batch; i++) {
        qn_batch_stream *s = b->streams[(b->step + (uint64_t)i) % (uint64_t)b->n_streams];
        if (rest(s) != 1 || !takes_part(b, s)) continue;
        s->n_part = 1;
        n++;
    }
    if (qn__pace_decode_alone(&b->pace, n)) return n;
    return plan_reading(b, n, n ? n : n_decoding(b));
}

/* One stream alone has room for all it may become. */
static void set_youngest_back(qn_batcher *b)
{
    qn_batch_stream *youngest = youngest_idle(b) ? youngest_idle(b) : b->streams[0];
    for (int32_t i = 1; i < b->n_streams; i++)
        if (!youngest->idle && b->streams[i]->order > youngest->order) youngest = b->streams[i];
    set_back(b, youngest, false);
}

/* ---- computing ---- */

static int32_t gather(qn_batcher *b, qn_batch_stream *const *streams, int32_t n)
{
    int32_t k = 0;
    for (int32_t i = 0; i < n; i++) {
        const qn_batch_stream *s = streams[i];
        for (int32_t j = 0; j < s->n_part; j++) {
            const int32_t pos = s->n_done + j;
            b->items[k++] = (qn_batch_item){s->tokens[pos], pos, s->seq, pos + 1 == s->n_tokens};
        }
    }
    return k;
}

/* The streams' parts were computed: what was read is counted, and who has logits gets a token. */
static void advance(qn_batcher *b, qn_batch_stream *const *streams, int32_t n)
{
    int32_t row = 0;
    for (int32_t i = 0; i < n; i++) {
        qn_batch_stream *s = streams[i];
        if (!s->n_part) continue;
        const bool ready = s->n_part == rest(s), read = s->usage.n_generated == 0;
        s->n_done += s->n_part;
        s->credit = s->credit > s->n_part ? s->credit - s->n_part : 0;
        qn__mutex_lock(&b->lock);
        note_read(s);
        if (read)
            *(s->usage.n_set_back ? &b->stats.tokens_read_again : &b->stats.tokens_read) += (uint64_t)s->n_part;
        else if (!ready || s->n_part > 1)
            b->stats.tokens_read_again += (uint64_t)s->n_part;
        qn__mutex_unlock(&b->lock);
        qn__batch_keep_prompt(b, s);
        if (ready)
            b->ready[row++] = s;
        else if (read)
            qn__batch_send(s, (qn_batch_event){.kind = QN_BATCH_progress});
    }
    qn__batch_choose(b, row);
}

/* What fails for all together is tried for each alone, so that only whose fault it is, or who finds no memory, ends.
 * Where others compute, too, a decode has chunks, and keeps those before the one that failed. False: it was stopped,
 * and is as if it had not begun. */
static bool compute(qn_batcher *b, qn_batch_stream *const *streams, int32_t n)
{
    qn_error err = {0};
    int32_t n_parts = 0;
    const qn_status status = qn__session_decode_set(b->session, b->set, b->items, gather(b, streams, n), &err);
    if (status == QN_OK) {
        advance(b, streams, n);
        return true;
    }
    qn__batch_take_back(b, streams, n);
    if (status == QN_STATUS_cancelled && b->session->unwanted) return false;
    for (int32_t i = 0; i < n; i++) n_parts += streams[i]->n_part > 0;
    for (int32_t i = 0; i < n; i++) {
        if (!streams[i]->n_part) continue;
        if (n_parts == 1)
            qn__batch_fail(streams[i], &err);
        else if (!compute(b, &streams[i], 1))
            return false;
    }
    return true;
}

/* The bucket of a step; QN_BATCH_STEP_BUCKETS: of none. */
static int bucket_of(double seconds)
{
    int i = 0;
    while (i < QN_BATCH_STEP_BUCKETS && seconds * 4096 > (double)(1 << i)) i++;
    return i;
}

static void publish(qn_batcher *b, double seconds, bool stopped)
{
    qn__mutex_lock(&b->lock);
    b->step_began_ns = 0;
    b->stop_below = 0;
    qn__batch_count_cells(b, &b->stats);
    b->stats.decode_seconds = qn__pace_decode(&b->pace, n_decoding(b));
    b->stats.busy_seconds += seconds;
    b->stats.n_steps += seconds > 0;
    b->stats.n_stopped += stopped;
    if (seconds > 0 && bucket_of(seconds) < QN_BATCH_STEP_BUCKETS) b->stats.steps_within[bucket_of(seconds)]++;
    qn__mutex_unlock(&b->lock);
}

static bool reads(const qn_batch_stream *s) { return s->n_part > 0 && rest(s) > 1; }

/* A prompt of fewer tokens than this is worth stopping the step for: one that is read before any of those which the
 * step reads. 0: somebody gets a token of it, or waits for one, and it goes on. */
static int32_t stop_below(const qn_batcher *b)
{
    int32_t least = INT32_MAX;
    if (!qn__pace_stoppable(&b->pace) || n_decoding(b)) return 0;
    for (int32_t i = 0; i < b->n_streams; i++) {
        const qn_batch_stream *s = b->streams[i];
        if (s->n_part == 0) continue;
        if (s->n_part == rest(s)) return 0;
        if (rest(s) < least) least = rest(s);
    }
    return least;
}

static void step(qn_batcher *b, int32_t n)
{
    int32_t n_decoded = 0, n_readers = 0;
    double depth = 0;
    const int64_t start = qn__now_ns();
    const int32_t below = stop_below(b);
    b->session->unwanted = below ? &b->stop : NULL;
    qn__mutex_lock(&b->lock);
    b->step_began_ns = start;
    b->stop_below = below;
    qn__mutex_unlock(&b->lock);
    for (int32_t i = 0; i < b->n_streams; i++) {
        n_decoded += b->streams[i]->n_part == 1 && rest(b->streams[i]) == 1;
        n_readers += reads(b->streams[i]);
        if (reads(b->streams[i]))
            depth += b->streams[i]->n_part * (b->streams[i]->n_done + b->streams[i]->n_part * 0.5);
        if (takes_part(b, b->streams[i])) b->streams[i]->served = b->step + 1;
    }
    for (int32_t i = 0; i < b->n_streams; i++) { /* a prompt that is read slowly, but passed by none, doesn't wait */
        qn_batch_stream *s = b->streams[i];
        if (!s->idle && rest(s) > 1 && n_readers > reads(s)) s->credit += AGE;
    }
    const bool done = compute(b, b->streams, b->n_streams);
    const double seconds = (double)(qn__now_ns() - start) * 1e-9;
    if (done)
        qn__pace_note(&b->pace, n_decoded, n - n_decoded, n > n_decoded ? depth / (n - n_decoded) : 0, seconds);
    else
        qn__pace_note_stopped(&b->pace, seconds);
    b->step++;
    finish_all(b);
    shift_all(b);
    QN_ASSERT(b->step % (b->n_ctx > FEW_CELLS ? 16 : 1) != 0 || qn__tree_adds_up(&b->tree, b->seen));
    publish(b, seconds, !done);
}

void qn__batch_run(void *batcher)
{
    qn_batcher *b = batcher;
    for (;;) {
        const int seen = atomic_load_explicit(&b->wake, memory_order_acquire);
        reap(b);
        qn__mutex_lock(&b->lock);
        const bool done = b->stopping && !b->queue && !b->n_streams; /* it may have been said behind reap */
        qn__mutex_unlock(&b->lock);
        if (done) return;
        admit(b);
        int32_t n = plan(b);
        while (n && !qn__batch_make_room(b, n)) {
            set_youngest_back(b);
            n = plan(b);
        }
        if (n) {
            step(b, n);
        } else {
            publish(b, 0, false);
            qn__park(&b->wake, seen);
        }
    }
}
