/* SPDX-License-Identifier: MIT */
/* src/engine/batch.c -- a batcher's life, and what callers ask of it. A request's memory is all taken here, on the
 * caller's thread, samplers and grammars included: the executor allocates nothing for it. */
#include "engine/batch.h"
#include "text/sampler/use.h"
#include <string.h>

enum { DEFAULT_PARALLEL = 8, MAX_PARALLEL = 128, MAX_CACHE = 1 << 16, DEFAULT_QUEUE = 256, MAX_QUEUE = 1 << 20 };

/* Of a conversation: behind its last prompt, and behind the answer. */
enum { ENDS = 2 };

#ifdef QN_CHECKED
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

const char *qn_batch_end_name(qn_batch_end end)
{
    static const char *const names[] = {
#define NAME(name, text) #name,
        QN_BATCH_END_ROWS(NAME)
#undef NAME
    };
    return (unsigned)end < QN_BATCH_END_COUNT ? names[end] : "unknown";
}

/* ---- create, destroy ---- */

static qn_status range(const char *name, int32_t value, int32_t most, qn_error *err)
{
    if (value >= 0 && value <= most) return QN_OK;
    return QN_FAIL(err, invalid, "%s is %d; 0 to %d are possible", name, value, most);
}

qn_status qn_batcher_session(const qn_batcher_options *o, qn_session_options *out, qn_error *err)
{
    static const qn_batcher_options defaults;
    if (!o) o = &defaults;
    QN_TRY(range("n_parallel", o->n_parallel, MAX_PARALLEL, err));
    const int32_t n_parallel = o->n_parallel ? o->n_parallel : DEFAULT_PARALLEL;
    QN_TRY(range("n_cache", o->n_cache, MAX_CACHE, err));
    QN_TRY(range("n_queue", o->n_queue, MAX_QUEUE, err));
    QN_TRY(range("session.n_ctx", o->session.n_ctx, INT32_MAX, err));
    QN_TRY(range("session.n_batch", o->session.n_batch, INT32_MAX, err));
    if (o->session.embeddings) return QN_FAIL(err, invalid, "a batcher's session is for text, not for embeddings");
    *out = o->session;
    out->n_seq = n_parallel;
    out->n_ends = o->no_cache ? 0 : ENDS * (o->n_cache ? o->n_cache : n_parallel);
    out->n_logits = n_parallel;
    return QN_OK;
}

/* What is read of a prompt is kept, and read in parts: neither can be where a token's keys hang on those behind it. */
static qn_status check_model(const qn_engine *engine, qn_error *err)
{
    if (!engine->model->sees_ahead) return QN_OK;
    return QN_FAIL(err, unsupported, "tokens of %s see what comes after them: there is no next one to write",
                   engine->model->arch->name);
}

qn_status qn_batcher_estimate(qn_engine *engine, const qn_batcher_options *options, qn_estimate *out, qn_error *err)
{
    qn_session_options session;
    qn_session_shape shape;
    qn_kv_size sizes[QN_MAX_GROUPS];
    const qn_model *m = engine->model;
    qn_engine_info info;
    QN_TRY(check_model(engine, err));
    QN_TRY(qn_batcher_session(options, &session, err));
    QN_TRY(qn__session_shape(engine, &session, &shape, err));
    QN_TRY(qn_engine_estimate(engine, &session, out, err));
    for (int32_t g = 0; g < m->n_groups; g++)
        sizes[g] = qn__kv_size(m->windows[g], shape.n_ctx, shape.n_batch, shape.n_seq, shape.n_ends);
    qn_engine_get_info(engine, &info);
    const uint64_t tree = qn__tree_bytes(sizes, m->n_groups), each = qn__sampler_scratch_bytes(info.n_vocab),
                   items = (uint64_t)shape.n_batch * sizeof(qn_batch_item), n_lists = 3,
                   lists = n_lists * (uint64_t)shape.n_seq * sizeof(qn_batch_stream *);
    const uint64_t own = sizeof(qn_batcher) + tree + items + lists + (uint64_t)info.n_threads * each;
    out->table_bytes += own;
    out->total_bytes += own;
    return QN_OK;
}

static qn_status create_scratch(qn_batcher *b, int n_threads, qn_error *err)
{
    QN_TRY(qn__pool_join(n_threads, &b->pool, err));
    b->scratch = qn__calloc((size_t)n_threads, sizeof(*b->scratch));
    if (!b->scratch) return QN_FAIL_NOMEM(err, (size_t)n_threads * sizeof(*b->scratch));
    for (int i = 0; i < n_threads; i++) QN_TRY(qn_sampler_scratch_create(b->n_vocab, &b->scratch[i], err));
    return QN_OK;
}

static qn_status set_up(qn_batcher *b, const qn_batcher_options *o, qn_error *err)
{
    qn_session_options session;
    QN_TRY(check_model(b->engine, err));
    QN_TRY(qn_batcher_session(o, &session, err));
    b->n_parallel = session.n_seq;
    b->n_queue = o->n_queue ? o->n_queue : DEFAULT_QUEUE;
    b->no_cache = o->no_cache;
    b->share_cache = o->share_cache;
    QN_TRY(qn_session_create(b->engine, &session, &b->session, err));
    b->loras = b->session->shape.loras;
    qn_engine_info info;
    qn_engine_get_info(b->engine, &info);
    b->n_vocab = info.n_vocab;
    b->n_ctx = qn_session_n_ctx(b->session);
    const int32_t n_positions = qn__session_positions(b->session);
    b->n_most = n_positions < b->n_ctx ? n_positions : b->n_ctx;
    b->n_batch = qn_session_n_batch(b->session);
    QN_TRY(create_scratch(b, info.n_threads, err));
    QN_TRY(qn__tree_init(&b->tree, &b->session->memory, err));
    b->seqs = qn__calloc((size_t)b->n_parallel, sizeof(*b->seqs));
    b->seen = qn__calloc(CHECKED ? (size_t)b->n_ctx : 1, sizeof(*b->seen));
    b->streams = qn__calloc((size_t)b->n_parallel, sizeof(*b->streams));
    b->items = qn__calloc((size_t)b->n_batch, sizeof(*b->items));
    b->ready = qn__calloc((size_t)b->n_parallel, sizeof(*b->ready));
    if (!b->seqs || !b->streams || !b->items || !b->seen || !b->ready)
        return QN_FAIL(err, nomem, "out of memory for a batch of %d tokens and %d streams", b->n_batch, b->n_parallel);
    b->pace.stops = b->engine->n_backends == 1 && b->engine->backends[0]->type->stops;
    b->stats.n_cells = b->stats.n_free_cells = b->n_ctx;
    QN_TRY(qn__worker_create(&b->worker, err));
    return qn__worker_submit(b->worker, qn__batch_run, b, err);
}

qn_status qn_batcher_create(qn_engine *engine, const qn_batcher_options *options, qn_batcher **out, qn_error *err)
{
    static const qn_batcher_options defaults;
    qn_batcher *b = qn__calloc(1, sizeof(*b));
    if (!b) return QN_FAIL_NOMEM(err, sizeof(*b));
    qn__mutex_init(&b->lock);
    b->engine = engine;
    const qn_status status = set_up(b, options ? options : &defaults, err);
    if (status == QN_OK)
        *out = b;
    else
        qn_batcher_destroy(b);
    return status;
}

void qn__batch_wake(qn_batcher *b)
{
    atomic_fetch_add_explicit(&b->wake, 1, memory_order_release);
    qn__unpark_all(&b->wake);
}

void qn__batch_stop_step(qn_batcher *b, int32_t n)
{
    if (b->stop_below == 0 || n < b->stop_below) atomic_store_explicit(&b->stop, true, memory_order_relaxed);
}

void qn_batcher_destroy(qn_batcher *b)
{
    if (!b) return;
    qn__mutex_lock(&b->lock);
    b->stopping = true;
    qn__batch_stop_step(b, 0);
    qn__mutex_unlock(&b->lock);
    qn__batch_wake(b);
    qn__worker_destroy(b->worker); /* waits: the executor ends all requests first */
    qn__batch_sweep_spaces(b, true);
    qn__tree_deinit(&b->tree);
    qn__free(b->seen);
    qn__free(b->seqs);
    qn__free(b->streams);
    qn__free(b->items);
    qn__free(b->ready);
    for (int i = 0; b->scratch && i < qn__pool_size(b->pool); i++) qn_sampler_scratch_destroy(b->scratch[i]);
    qn__free(b->scratch);
    qn__pool_leave(b->pool);
    qn_session_destroy(b->session);
    qn__mutex_deinit(&b->lock);
    qn__free(b);
}

int32_t qn_batcher_n_ctx(const qn_batcher *b) { return b->n_most; }

int32_t qn_batcher_n_parallel(const qn_batcher *b) { return b->n_parallel; }

/* ---- requests ---- */

void qn__batch_free(qn_batch_stream *s)
{
    if (!s) return;
    qn_matcher_destroy(s->matcher);
    qn_sampler_destroy(s->sampler);
    qn__free(s->tokens);
    qn__free(s->key);
    qn__free(s);
}

static qn_status check(const qn_batcher *b, const qn_batch_request *r, qn_error *err)
{
    if (!r->fn) return QN_FAIL(err, invalid, "a request without a callback");
    if (!r->n_prompt) return QN_FAIL(err, invalid, "the prompt is empty; at least one token is needed");
    if (r->n_prompt > (size_t)(r->context_shift ? INT32_MAX : b->n_most))
        return QN_FAIL(err, invalid, "the prompt has %zu tokens, the context %d", r->n_prompt, b->n_most);
    for (size_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= b->n_vocab)
            return QN_FAIL(err, invalid, "token %zu of the prompt is %d; 0 to %d are in the vocabulary", i,
                           r->prompt[i], b->n_vocab - 1);
    QN_TRY(range("n_top", r->n_top, QN_BATCH_MAX_TOP, err));
    QN_TRY(range("n_discard", r->n_discard, INT32_MAX, err));
    return range("max_tokens", r->max_tokens, INT32_MAX, err);
}

/* What a full context keeps at its beginning, and what goes behind that. Something always goes, something stays. */
static void fill_shift(const qn_batcher *b, const qn_batch_request *r, qn_batch_stream *s)
{
    enum { ROOM = 4 }; /* tokens of the context that change at least */
    const int32_t n = r->n_keep < 0 ? (int32_t)r->n_prompt : r->n_keep, most = b->n_most > ROOM ? b->n_most - ROOM : 0;
    s->n_keep = n < most ? n : most;
    const int32_t behind = b->n_most + 1 - s->n_keep;
    s->n_discard = !r->n_discard ? behind / 2 : r->n_discard < behind ? r->n_discard : behind - 1;
}

/* The prompt's tokens, as many as fit: what does not is left out as it is behind an answer. */
static void fill_prompt(const qn_batcher *b, const qn_batch_request *r, qn_batch_stream *s)
{
    const int32_t n = (int32_t)r->n_prompt, over = n > b->n_most ? n - b->n_most : 0;
    const int32_t n_shifts = over ? (over - 1) / s->n_discard + 1 : 0, gone = n_shifts * s->n_discard;
    const int32_t first = gone ? s->n_keep : n;
    memcpy(s->tokens, r->prompt, (size_t)first * sizeof(*s->tokens));
    memcpy(s->tokens + first, r->prompt + first + gone, (size_t)(n - first - gone) * sizeof(*s->tokens));
    s->n_tokens = s->n_prompt = n - gone;
    s->usage.n_left_out = gone;
}

/* A limit of the request's own is nothing that waiting helps against, as it does where the queue is full. */
static qn_status own_limit(qn_status status, qn_error *err)
{
    if (status != QN_STATUS_limit) return status;
    if (err) err->status = QN_STATUS_invalid;
    return QN_STATUS_invalid;
}

static qn_status fill(qn_batcher *b, const qn_batch_request *r, qn_batch_stream *s, qn_error *err)
{
    const qn_tokenizer *tok = qn_engine_tokenizer(b->engine);
    const int64_t n = (int64_t)r->n_prompt, room = b->n_most + 1 - n; /* the last token needs no cell */
    fill_shift(b, r, s);
    const bool shifts = r->context_shift && r->max_tokens && r->max_tokens > room;
    s->cap = !shifts && r->max_tokens && r->max_tokens < room ? (int32_t)(n + r->max_tokens) : b->n_most + 1;
    s->key = qn__strdup(r->key ? r->key : "");
    s->tokens = qn__alloc((size_t)s->cap * sizeof(*s->tokens));
    if (!s->tokens || !s->key) return QN_FAIL_NOMEM(err, (size_t)s->cap * sizeof(*s->tokens));
    fill_prompt(b, r, s);
    s->max_tokens = shifts ? r->max_tokens : s->cap - s->n_tokens;
    qn_sampler_params params = r->sampler ? *r->sampler : (qn_sampler_params){0};
    params.scratch = b->scratch[0];
    QN_TRY(qn_sampler_create(&params, b->n_vocab, tok, &s->sampler, err));
    for (size_t i = 0; i < r->n_prompt; i++) qn_sampler_accept(s->sampler, r->prompt[i]);
    if (r->grammar) QN_TRY(own_limit(qn_matcher_create(r->grammar, tok, &s->matcher, err), err));
    if (s->matcher && r->lazy) QN_TRY(own_limit(qn_matcher_set_lazy(s->matcher, r->lazy, err), err));
    s->end = r->max_tokens == s->max_tokens ? QN_BATCH_END_length : QN_BATCH_END_context;
    s->seq = -1;
    s->logprobs = r->logprobs;
    s->n_top = r->n_top;
    s->no_cache = r->no_cache || b->no_cache;
    s->goes_on = r->goes_on;
    s->fn = r->fn;
    s->ctx = r->ctx;
    s->usage.n_prompt = (int32_t)n;
    s->submit_ns = qn__now_ns();
    return QN_OK;
}

/* Adapters in the order in which they were opened, without those that do nothing: one set has one space. */
static qn_status fill_space(qn_batcher *b, const qn_batch_request *r, qn_batch_space **out, qn_error *err)
{
    qn_lora_set set;
    if (r->loras || r->n_loras)
        QN_TRY(qn__lora_set(b->engine, r->loras, r->n_loras, &set, err));
    else
        set = b->loras;
    qn_batch_space *s = *out = qn__calloc(1, sizeof(*s));
    if (!s) return QN_FAIL_NOMEM(err, sizeof(*s));
    s->root.child = -1;
    for (int32_t i = 0; i < set.n; i++) {
        int32_t at = s->loras.n;
        if (set.use[i].scale == 0) continue;
        for (; at > 0 && s->loras.use[at - 1].adapter->id > set.use[i].adapter->id; at--)
            s->loras.use[at] = s->loras.use[at - 1];
        s->loras.use[at] = set.use[i];
        s->loras.n++;
    }
    s->key = qn__strdup(r->key && !b->share_cache ? r->key : "");
    return s->key ? QN_OK : QN_FAIL_NOMEM(err, 1);
}

uint64_t qn__batch_turn(const qn_batcher *b, const char *key)
{
    uint64_t turn = b->turn;
    for (int32_t i = 0; i < b->n_streams; i++)
        if (b->streams[i]->turn >= turn && strcmp(b->streams[i]->key, key) == 0) turn = b->streams[i]->turn + 1;
    for (const qn_batch_stream *s = b->queue; s; s = s->next)
        if (s->turn >= turn && strcmp(s->key, key) == 0) turn = s->turn + 1;
    return turn;
}

/* The oldest first; those set back are older than all that are new. *space is taken where it is the first of its kind.
 */
static qn_status join(qn_batcher *b, qn_batch_stream *s, qn_batch_space **space, uint64_t *id, qn_error *err)
{
    qn_status status = QN_OK;
    qn__mutex_lock(&b->lock);
    const int32_t n_waiting = b->n_queued - (b->n_parallel - b->n_streams); /* the others begin with the next step */
    if (b->stopping) {
        status = QN_FAIL(err, state, "the batcher is being destroyed");
    } else if (n_waiting >= b->n_queue && !s->goes_on) {
        status = QN_FAIL(err, limit, "the queue is full: %d requests wait already", n_waiting);
    } else {
        s->turn = qn__batch_turn(b, s->key);
        qn_batch_stream **at = &b->queue;
        while (*at) at = &(*at)->next;
        *at = s;
        s->space = qn__batch_join_space(b, *space);
        if (s->space == *space) *space = NULL;
        *id = s->id = ++b->last_id;
        s->order = ++b->last_order;
        b->n_queued++;
        b->stats.n_requests++;
        if (b->n_streams < b->n_parallel) qn__batch_stop_step(b, s->n_tokens);
    }
    qn__mutex_unlock(&b->lock);
    return status;
}

qn_status qn_batcher_submit(qn_batcher *b, const qn_batch_request *r, uint64_t *id, qn_error *err)
{
    QN_TRY(check(b, r, err));
    qn_batch_stream *s = qn__calloc(1, sizeof(*s));
    if (!s) return QN_FAIL_NOMEM(err, sizeof(*s));
    qn_batch_space *space = NULL;
    qn_status status = fill(b, r, s, err);
    if (status == QN_OK) status = fill_space(b, r, &space, err);
    if (status == QN_OK) status = join(b, s, &space, id, err);
    qn__batch_free_space(space);
    if (status == QN_OK)
        qn__batch_wake(b);
    else
        qn__batch_free(s);
    return status;
}

/* Under lock. */
static qn_batch_stream *find(qn_batcher *b, uint64_t id)
{
    for (int32_t i = 0; i < b->n_streams; i++)
        if (b->streams[i]->id == id) return b->streams[i];
    for (qn_batch_stream *s = b->queue; s; s = s->next)
        if (s->id == id) return s;
    return NULL;
}

/* Under lock. */
static bool is_stream(const qn_batcher *b, const qn_batch_stream *s)
{
    for (int32_t i = 0; i < b->n_streams; i++)
        if (b->streams[i] == s) return true;
    return false;
}

void qn_batcher_cancel(qn_batcher *b, uint64_t id)
{
    qn__mutex_lock(&b->lock);
    qn_batch_stream *s = find(b, id);
    if (s) s->cancelled = true;
    if (s && is_stream(b, s)) qn__batch_stop_step(b, 0);
    qn__mutex_unlock(&b->lock);
    if (s) qn__batch_wake(b);
}

void qn_batcher_pause(qn_batcher *b, uint64_t id, bool paused)
{
    qn__mutex_lock(&b->lock);
    qn_batch_stream *s = find(b, id);
    if (s) s->paused = paused;
    if (s && !paused && is_stream(b, s)) qn__batch_stop_step(b, 0);
    qn__mutex_unlock(&b->lock);
    if (s) qn__batch_wake(b);
}

/* ---- looking inside ---- */

void qn_batcher_get_stats(qn_batcher *b, qn_batcher_stats *out)
{
    qn__mutex_lock(&b->lock);
    *out = b->stats;
    out->n_streams = b->n_streams;
    out->n_queued = b->n_queued;
    out->n_paused = 0;
    for (int32_t i = 0; i < b->n_streams; i++) out->n_paused += b->streams[i]->paused;
    for (const qn_batch_stream *s = b->queue; s; s = s->next) {
        if (!s->begun) continue;
        out->n_paused += s->paused;
        out->n_queued += !s->paused; /* set back for want of cells */
    }
    out->step_seconds = b->step_began_ns ? (double)(qn__now_ns() - b->step_began_ns) * 1e-9 : 0;
    qn__mutex_unlock(&b->lock);
}

void qn__batch_note_wait(const qn_batch_stream *s, qn_batch_usage *out)
{
    const int64_t now = qn__now_ns();
    if (!s->start_ns)
        out->queue_ns = now - s->submit_ns;
    else if (!s->first_ns)
        out->read_ns = now - s->start_ns;
}

static qn_batch_info info_of(const qn_batch_stream *s, int32_t stream)
{
    qn_batch_info info = {.id = s->id, .stream = stream, .usage = s->usage};
    qn__batch_note_wait(s, &info.usage);
    info.state = s->paused && s->begun  ? QN_BATCH_paused
                 : stream < 0           ? QN_BATCH_queued
                 : s->usage.n_generated ? QN_BATCH_generating
                                        : QN_BATCH_reading;
    return info;
}

int32_t qn_batcher_list(qn_batcher *b, qn_batch_info *out, int32_t n)
{
    int32_t count = 0;
    qn__mutex_lock(&b->lock);
    for (int32_t i = 0; i < b->n_streams; i++, count++)
        if (count < n) out[count] = info_of(b->streams[i], i);
    for (const qn_batch_stream *s = b->queue; s; s = s->next, count++)
        if (count < n) out[count] = info_of(s, -1);
    qn__mutex_unlock(&b->lock);
    return count;
}
