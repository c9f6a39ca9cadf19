/* SPDX-License-Identifier: MIT */
/* src/engine/lens.c -- what each layer gives, through the last norm and the vocabulary. Layers are taken down by a tap,
 * a chunk of tokens at a time; a graph of the model's own end then makes logits of them, some rows at a time. */
#include "engine/lens.h"
#include "engine/pager.h"
#include <math.h>
#include <string.h>

#define MOST_BYTES (UINT64_C(4) << 30) /* that are kept */
enum { TOP = 5, CHUNK = 64 };

/* ---- what is kept ---- */

static bool alloc(void **to, uint64_t n, uint64_t size)
{
    *to = qn__calloc((size_t)(n ? n : 1), (size_t)size);
    return *to != NULL;
}

/* Bytes of attention: of all layers as many heads as the model has at most. */
static uint64_t attention_bytes(const qn_lens *l)
{
    const uint64_t n = (uint64_t)l->info.n_tokens;
    return (uint64_t)l->n_kept * l->session->engine->model->hp.n_head * n * n * sizeof(float);
}

static qn_status check_room(const qn_lens *l, const qn_lens_options *o, qn_error *err)
{
    const uint64_t places = (uint64_t)l->n_kept * (uint64_t)l->info.n_tokens;
    uint64_t bytes = places * ((uint64_t)l->info.n_top * sizeof(qn_lens_word) + sizeof(qn_lens_place));
    if (o->logits) bytes += places * (uint64_t)l->info.n_vocab * sizeof(float);
    if (o->attention) bytes += attention_bytes(l);
    if (bytes <= MOST_BYTES) return QN_OK;
    return QN_FAIL(err, limit, "%d layers at %d tokens would take %llu MiB, more than %llu; fewer layers take less",
                   l->n_kept, l->info.n_tokens, (unsigned long long)(bytes >> 20),
                   (unsigned long long)(MOST_BYTES >> 20));
}

static qn_status make_room(qn_lens *l, const qn_lens_options *o, qn_error *err)
{
    const uint64_t n = (uint64_t)l->info.n_tokens, kept = (uint64_t)l->n_kept, vocab = (uint64_t)l->info.n_vocab;
    QN_TRY(check_room(l, o, err));
    bool ok = alloc((void **)&l->tokens, n, sizeof(qn_token)) && alloc((void **)&l->next, n, sizeof(qn_token)) &&
              alloc((void **)&l->places, kept * n, sizeof(qn_lens_place)) &&
              alloc((void **)&l->words, kept * n * (uint64_t)l->info.n_top, sizeof(qn_lens_word)) &&
              alloc((void **)&l->there, kept, sizeof(bool)) &&
              alloc((void **)&l->row, QN_LENS_ROWS * vocab, sizeof(float));
    if (ok && o->logits) ok = alloc((void **)&l->logits, kept * n * vocab, sizeof(float));
    if (ok && o->attention) ok = alloc((void **)&l->heads, kept, sizeof(qn_lens_heads));
    return ok ? QN_OK : QN_FAIL(err, nomem, "out of memory for what %d layers say at %d tokens", l->n_kept, (int)n);
}

void qn_lens_destroy(qn_lens *l)
{
    if (!l) return;
    for (int i = 0; i < QN_LENS_SOURCES; i++) qn__free(l->of[i].x);
    for (int32_t i = 0; l->heads && i < l->n_kept; i++) qn__free(l->heads[i].rows);
    void *const all[] = {l->tokens, l->next,  l->places, l->words, l->logits,  l->heads,
                         l->stream, l->there, l->row,    l->raw,   l->weights, l};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) qn__free(all[i]);
}

/* ---- what a layer gives ---- */

static qn_status take_stream(void *ctx, qn_tap_value *v, qn_error *err)
{
    qn_lens *l = ctx;
    const int32_t at = v->layer - l->info.first_layer;
    if (at < 0 || at >= l->n_kept || !v->rows) return QN_OK;
    if (!l->stream) {
        const uint64_t n = (uint64_t)l->n_kept * (uint64_t)l->batch * (uint64_t)v->row_size;
        if (!alloc((void **)&l->stream, n, sizeof(float))) return QN_FAIL_NOMEM(err, n * sizeof(float));
        l->width = v->row_size;
    }
    if (v->row_size != l->width)
        return QN_FAIL(err, unsupported, "%s has %lld numbers a token, layers before it %lld", v->name,
                       (long long)v->row_size, (long long)l->width);
    for (int64_t r = 0; r < v->n_rows; r++) {
        const int32_t row = v->rows[r].pos - l->first;
        if (v->rows[r].seq != 0 || row < 0 || row >= l->batch) continue;
        memcpy(l->stream + ((int64_t)at * l->batch + row) * l->width, v->data + r * l->width,
               (size_t)l->width * sizeof(float));
    }
    l->there[at] = true;
    return QN_OK;
}

/* ---- words ---- */

static void insert(qn_lens_word *top, int32_t n, qn_token token, float logit)
{
    int32_t at = n;
    while (at > 0 && logit > top[at - 1].p) at--;
    if (at == n) return;
    memmove(top + at + 1, top + at, (size_t)(n - 1 - at) * sizeof *top);
    top[at] = (qn_lens_word){token, logit};
}

/* Of a row of logits. */
static void read_words(const qn_lens *l, const float *x, qn_token next, qn_lens_place *place, qn_lens_word *top)
{
    const int32_t n = l->info.n_vocab, n_top = l->info.n_top;
    double max = -(double)INFINITY, sum = 0, weighed = 0;
    int32_t rank = 1;
    for (int32_t i = 0; i < n_top; i++) top[i] = (qn_lens_word){-1, -INFINITY};
    for (int32_t i = 0; i < n; i++) {
        if ((double)x[i] > max) max = (double)x[i];
        insert(top, n_top, i, x[i]);
        rank += x[i] > x[next] || (x[i] == x[next] && i < next);
    }
    for (int32_t i = 0; i < n; i++) {
        const double off = (double)x[i] - max, e = exp(off);
        sum += e;
        if (e > 0) weighed += off * e;
    }
    for (int32_t i = 0; i < n_top; i++) top[i].p = (float)(exp((double)top[i].p - max) / sum);
    place->top = top;
    place->entropy = (float)((log(sum) - weighed / sum) / log(2));
    place->p = (float)(exp((double)x[next] - max) / sum);
    place->rank = rank;
}

static void read_stream(const float *x, int64_t n, qn_lens_place *place)
{
    double squares = 0;
    place->max = 0;
    place->channel = 0;
    for (int64_t i = 0; i < n; i++) {
        squares += (double)x[i] * (double)x[i];
        if (!(fabsf(x[i]) > place->max)) continue;
        place->max = fabsf(x[i]);
        place->channel = (int32_t)i;
    }
    place->rms = (float)sqrt(squares / (double)n);
}

/* ---- the model's end ---- */

static qn_status find_end(qn_lens *l, qn_exec **out, qn_error *err)
{
    qn_session *s = l->session;
    qn_decode_key key;
    const size_t key_bytes = qn__session_key(s, QN_KEY_lens, QN_LENS_ROWS, 0, &key);
    *out = qn__sched_find(s->sched, &key, key_bytes);
    if (*out) return QN_OK;
    qn_graph *graph = NULL;
    const qn_decode_spec spec = qn__decode_spec(s->engine, &s->shape, 1, 1);
    s->last = NULL; /* compiling may evict it */
    QN_TRY(qn__build_lens(s->engine->model, &spec, QN_LENS_ROWS, l->width, &graph, err));
    return qn__sched_compile(s->sched, graph, &key, key_bytes, out, err);
}

/* Logits of `n` rows; what is there less than a graph's rows is any of these. */
static qn_status run_end(qn_lens *l, const float *x, int32_t n, qn_error *err)
{
    qn_exec *e = NULL;
    const qn_run run = {0};
    const uint64_t row = (uint64_t)l->width * sizeof(float), logits = (uint64_t)l->info.n_vocab * sizeof(float);
    float *rows = NULL;
    QN_TRY(find_end(l, &e, err));
    const qn_node *in = qn__exec_find(e, "x"), *out = qn__exec_find(e, qn__role_name(QN_ROLE_logits));
    if (!in || !out) return QN_FAIL(err, internal, "the model's end has no %s", in ? "logits" : "input");
    if (n < QN_LENS_ROWS) {
        if (!alloc((void **)&rows, QN_LENS_ROWS, row)) return QN_FAIL_NOMEM(err, QN_LENS_ROWS * row);
        memcpy(rows, x, (size_t)n * row);
    }
    qn_status status = qn__exec_set(e, in, rows ? rows : x, QN_LENS_ROWS * row, err);
    if (status == QN_OK) status = qn__exec_run(e, &run, err);
    if (status == QN_OK) status = qn__exec_get(e, out, l->row, 0, (uint64_t)n * logits, err);
    qn__free(rows);
    return status;
}

/* Rows first .. first + n of what layer number `at` of those kept gave in this chunk. */
static qn_status read_rows(qn_lens *l, int32_t at, int32_t first, int32_t n, qn_error *err)
{
    qn_session *s = l->session;
    const float *x = l->stream + ((int64_t)at * l->batch + first) * l->width;
    qn__turns_take(&s->engine->turns, &s->turn);
    const qn_status status = run_end(l, x, n, err);
    qn__pager_give_turn(s->engine, &s->turn);
    for (int32_t i = 0; i < n && status == QN_OK; i++) {
        const int64_t place = (int64_t)at * l->info.n_tokens + l->first + first + i;
        const float *row = l->row + (int64_t)i * l->info.n_vocab;
        qn_lens_place *p = &l->places[place];
        read_words(l, row, l->next[l->first + first + i], p, l->words + place * l->info.n_top);
        read_stream(x + i * l->width, l->width, p);
        if (l->logits) memcpy(l->logits + place * l->info.n_vocab, row, (size_t)l->info.n_vocab * sizeof *row);
    }
    return status;
}

/* ---- the whole ---- */

static qn_status run_chunk(qn_lens *l, int32_t n, const qn_lens_options *o, qn_error *err)
{
    qn_session *s = l->session;
    const int32_t all = l->info.n_tokens;
    qn_batch_item *items = qn__alloc((size_t)n * sizeof *items);
    if (!items) return QN_FAIL_NOMEM(err, (size_t)n * sizeof *items);
    for (int32_t i = 0; i < n; i++)
        items[i] = (qn_batch_item){l->tokens[l->first + i], l->first + i, 0, l->first + i + 1 == all};
    memset(l->there, 0, (size_t)l->n_kept);
    qn_status status = qn_session_decode(s, items, n, err);
    qn__free(items);
    if (status != QN_OK) return status;
    if (l->first + n == all)
        l->next[all - 1] = o->has_next ? o->next : qn__most_likely(qn_session_logits(s, -1), l->info.n_vocab);
    for (int32_t at = 0; at < l->n_kept; at++) {
        if (!l->there[at])
            return QN_FAIL(err, unsupported, "layer %d has no value resid_post", at + l->info.first_layer);
        for (int32_t i = 0; i < n; i += QN_LENS_ROWS)
            QN_TRY(read_rows(l, at, i, n - i < QN_LENS_ROWS ? n - i : QN_LENS_ROWS, err));
        if (o->progress &&
            !o->progress(o->progress_ctx, (uint64_t)l->first * (uint64_t)l->n_kept + (uint64_t)n * (uint64_t)(at + 1),
                         (uint64_t)all * (uint64_t)l->n_kept))
            return QN_FAIL(err, cancelled, "the lens was cancelled");
    }
    return QN_OK;
}

static qn_status run(qn_lens *l, const qn_lens_options *o, qn_error *err)
{
    qn_session *s = l->session;
    const int32_t n = l->info.n_tokens;
    QN_TRY(qn_session_tap_fn(s, "resid_post-*", false, take_stream, l, err));
    if (l->heads) QN_TRY(qn_session_tap_fn(s, "attn-*", false, qn__lens_attention, l, err));
    for (l->first = 0; l->first < n; l->first += l->batch)
        QN_TRY(run_chunk(l, n - l->first < l->batch ? n - l->first : l->batch, o, err));
    return QN_OK;
}

static qn_status check(const qn_session *s, const qn_token *tokens, int32_t n, const qn_lens_options *o, qn_error *err)
{
    const int32_t n_layer = (int32_t)s->engine->model->hp.n_layer, end = o->end_layer ? o->end_layer : n_layer;
    QN_TRY(qn__session_idle(s, err));
    if (s->engine->info.encoder || s->shape.embeddings)
        return QN_FAIL(err, unsupported, "a lens needs logits, which this %s does not have",
                       s->engine->info.encoder ? "model" : "session");
    if (n < 1) return QN_FAIL(err, invalid, "no tokens to look at");
    if (o->first_layer < 0 || end > n_layer || o->first_layer >= end)
        return QN_FAIL(err, invalid, "layers %d to %d; the model has 0 to %d", o->first_layer, end - 1, n_layer - 1);
    if (o->n_top < 0 || o->n_top > QN_LENS_MAX_TOP)
        return QN_FAIL(err, invalid, "%d words; 1 to %d are possible", o->n_top, QN_LENS_MAX_TOP);
    if (qn_session_seq_len(s, 0) > 0) return QN_FAIL(err, state, "sequence 0 is not empty");
    for (int32_t i = 0; i < n; i++) QN_TRY(qn__session_check_token(s, i, tokens[i], err));
    if (o->has_next) QN_TRY(qn__session_check_token(s, n, o->next, err));
    return qn__session_at_once(s, (size_t)n, err);
}

qn_status qn_lens_create(qn_session *s, const qn_token *tokens, int32_t n, const qn_lens_options *options,
                         qn_lens **out, qn_error *err)
{
    static const qn_lens_options defaults;
    const qn_lens_options *o = options ? options : &defaults;
    const qn_engine_info *info = &s->engine->info;
    QN_TRY(check(s, tokens, n, o, err));
    qn_lens *l = qn__calloc(1, sizeof *l);
    if (!l) return QN_FAIL_NOMEM(err, sizeof *l);
    l->session = s;
    l->info = (qn_lens_info){.n_layer = info->n_layer,
                             .first_layer = o->first_layer,
                             .end_layer = o->end_layer ? o->end_layer : info->n_layer,
                             .n_tokens = n,
                             .n_top = o->n_top ? o->n_top : TOP,
                             .n_vocab = info->n_vocab};
    if (l->info.n_top > info->n_vocab) l->info.n_top = info->n_vocab;
    l->n_kept = l->info.end_layer - l->info.first_layer;
    l->batch = s->shape.n_batch < CHUNK || s->engine->model->sees_ahead ? s->shape.n_batch : CHUNK;
    if (l->batch > n) l->batch = n;
    qn_status status = make_room(l, o, err);
    if (status == QN_OK) {
        memcpy(l->tokens, tokens, (size_t)n * sizeof *tokens);
        memcpy(l->next, tokens + 1, (size_t)(n - 1) * sizeof *tokens);
        l->info.tokens = l->tokens;
        l->info.next = l->next;
        status = run(l, o, err);
        qn__taps_remove(s, l);
    }
    if (status != QN_OK) {
        qn_lens_destroy(l);
        return status;
    }
    *out = l;
    return QN_OK;
}

/* ---- asking ---- */

void qn_lens_get_info(const qn_lens *l, qn_lens_info *out) { *out = l->info; }

/* Of a layer and a token; -1: not here. */
static int64_t index_of(const qn_lens *l, int32_t layer, int32_t token)
{
    const bool here =
        layer >= l->info.first_layer && layer < l->info.end_layer && token >= 0 && token < l->info.n_tokens;
    return here ? (int64_t)(layer - l->info.first_layer) * l->info.n_tokens + token : -1;
}

const qn_lens_place *qn_lens_at(const qn_lens *l, int32_t layer, int32_t token)
{
    const int64_t at = index_of(l, layer, token);
    return at >= 0 ? &l->places[at] : NULL;
}

const float *qn_lens_logits(const qn_lens *l, int32_t layer, int32_t token)
{
    const int64_t at = index_of(l, layer, token);
    return at >= 0 && l->logits ? l->logits + at * l->info.n_vocab : NULL;
}
