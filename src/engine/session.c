/* SPDX-License-Identifier: MIT */
/* src/engine/session.c -- a session's life, and decoding. After create and the first decode of a shape nothing
 * allocates. */
#include "base/fpenv.h"
#include "base/log.h"
#include "engine/pager.h"
#include "engine/tap.h"
#include <string.h>

/* The worst cases of every set of adapters that the engine has now. */
static qn_status reserve(qn_session *s, qn_admit_fn admit, void *ctx, qn_error *err)
{
    qn_session_shape shape = s->shape;
    qn_status status = QN_OK;
    qn__mutex_lock(&s->engine->lock);
    for (int32_t i = 0; status == QN_OK && qn__lora_part(s->engine, i, &shape.loras); i++) {
        qn_graph *worst = NULL;
        status = qn__worst_graph(s->engine, &shape, &s->kv_desc, &worst, err);
        if (status == QN_OK) status = qn__sched_reserve(s->sched, worst, admit, ctx, err);
    }
    if (status == QN_OK) s->planned_lora = s->engine->last_lora_id;
    qn__mutex_unlock(&s->engine->lock);
    return status;
}

/* ---- create, destroy ---- */

static qn_status create_buffers(qn_session *s, qn_error *err)
{
    qn_engine *e = s->engine;
    for (int p = 0; p < e->n_backends; p++) {
        if (!s->layout.bytes[p]) continue;
        qn_backend *be = e->backends[p];
        QN_TRY(be->type->buffer_create(be, s->layout.bytes[p], &s->kv_buffers[p], err));
        QN_TRY(be->type->buffer_create(be, s->kv_desc.list_bytes, &s->list_buffers[p], err));
    }
    qn__kv_layout_bind(&s->layout, &s->kv_desc, e->model->hp.n_layer, s->kv_buffers, s->list_buffers);
    return qn__memory_init(&s->memory, s->kv_desc.sizes, s->kv_desc.n_groups, err);
}

static qn_status create_tables(qn_session *s, qn_error *err)
{
    const size_t n = (size_t)s->shape.n_batch;
    s->tokens = qn__calloc(n * (size_t)qn__inputs_a_token(s->engine), sizeof(int32_t));
    s->items = qn__calloc(n, sizeof(*s->items));
    const int64_t width = qn__output_width(s->engine, &s->shape);
    s->logits = qn__alloc(qn__output_bytes(s->engine, &s->shape));
    if (!s->tokens || !s->items || !s->logits)
        return QN_FAIL(err, nomem, "out of memory for %d rows of %lld numbers", s->shape.n_logits, (long long)width);
    if (s->shape.embeddings)
        s->sum = (double *)(s->logits + qn__output_bytes(s->engine, &s->shape) / sizeof(float)) - width;
    s->pos = s->tokens + n;
    s->rows = s->pos + n;
    s->out_ids = s->rows + n * (size_t)s->engine->model->n_groups;
    s->list_at = s->out_ids + n;
    s->list_to = s->list_at + qn__list_entries(s->engine->model, s->shape.n_batch);
    s->spans = s->list_to + qn__list_entries(s->engine->model, s->shape.n_batch);
    return QN_OK;
}

/* What a session is asked to be, and whether there is memory for that. */
typedef struct wish {
    qn_session *session;
    const qn_session_options *options;
    qn_plan plan; /* of activations, so far */
    qn_estimate estimate;
    uint64_t left; /* bytes it may take */
    bool too_large;
} wish;

static uint64_t asked_limit(const wish *w)
{
    return w->options->memory_limit ? w->options->memory_limit : w->session->engine->memory_limit;
}

static qn_status admit(void *ctx, const qn_plan *plan, qn_error *err)
{
    wish *w = ctx;
    const qn_session *s = w->session;
    qn__plan_cover(&w->plan, plan);
    w->estimate = qn__estimate_of(s->engine, &s->shape, &s->layout, &s->kv_desc, &w->plan);
    w->too_large = !qn__session_fits(s->engine, asked_limit(w), &w->estimate, &w->left);
    return w->too_large ? QN_FAIL(err, limit, "the session is too large") : QN_OK;
}

/* Kept: up to a batch of 512 there are 12 for a set of adapters; where they cannot be resized 18, with several numbers
 * of rows each. */
enum { GRAPHS = 64 };

/* Activations are reserved first, while the cache is a stand-in: their plan tells what all will take. */
static qn_status create_sched(qn_session *s, wish *w, qn_error *err)
{
    qn_engine *e = s->engine;
    qn_stand_in stand_in;
    const qn_sched_options options = {.strict = e->strict,
                                      .passes_off = e->passes_off,
                                      .no_cache = s->no_plan_cache,
                                      .cache_capacity = GRAPHS};
    QN_TRY(qn__sched_create(e->backends, e->n_backends, &options, &s->sched, err));
    QN_TRY(qn__kv_layout(e, &s->shape, &s->arena, &s->layout, &s->kv_desc, err));
    qn__stand_in(e, &s->layout, &s->kv_desc, &stand_in);
    w->plan = (qn_plan){0};
    return reserve(s, admit, w, err);
}

static _Atomic uint32_t last_number;

static qn_status create(qn_engine *engine, const qn_session_shape *shape, wish *w, qn_session **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_session *s = qn__arena_alloc(&arena, sizeof(*s));
    if (!s) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof(*s));
    }
    s->arena = arena;
    s->engine = engine;
    s->number = 1 + atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed);
    s->unwanted = &s->stop;
    s->shape = *shape;
    s->no_plan_cache = w->options->no_plan_cache;
    s->resizes = true;
    for (int p = 0; p < engine->n_backends; p++) s->resizes &= engine->backends[p]->type->resize != NULL;
    w->session = s;
    qn__devices_take(engine, &s->turn);
    qn_status status = create_sched(s, w, err);
    if (status == QN_OK) status = create_buffers(s, err);
    qn__devices_give(engine, &s->turn);
    if (status == QN_OK) status = create_tables(s, err);
    if (status != QN_OK) {
        qn_session_destroy(s);
        return status;
    }
    s->stats.kv_bytes = s->layout.total_bytes;
    qn__pager_changed(engine->pager);
    *out = s;
    return QN_OK;
}

/* A batch that nobody asked for gives way to memory: the largest that fits, 0 if none. */
static qn_status shrink_batch(qn_engine *e, const wish *w, qn_session_shape *shape, int32_t *n, qn_error *err)
{
    *n = 0;
    if (w->options->n_batch) return QN_OK;
    QN_TRY(qn__fit_batch(e, w->options, shape->n_batch, w->left, n, err));
    if (*n == 0) return QN_OK;
    qn__log(QN_LOG_warn, "memory is short: %d tokens are computed at once, not %d", *n, shape->n_batch);
    shape->n_batch = *n;
    return QN_OK;
}

static void warn_beyond_training(qn_session *s, int64_t n)
{
    const uint32_t trained = s->engine->model->hp.n_ctx_train;
    if (s->warned_ctx || n <= trained) return;
    s->warned_ctx = true;
    qn__log(QN_LOG_warn, "%lld tokens of context, but the model was trained for %u: what comes after them gets worse",
            (long long)n, trained);
}

static qn_status create_or_shrink(qn_engine *engine, const qn_session_options *options, qn_session **out, qn_error *err)
{
    static const qn_session_options defaults;
    wish w = {.options = options ? options : &defaults};
    qn_session_shape shape;
    int32_t n_batch = 0;
    QN_TRY(qn__session_shape(engine, options, &shape, err));
    qn_status status = create(engine, &shape, &w, out, err);
    if (w.too_large) {
        QN_TRY(shrink_batch(engine, &w, &shape, &n_batch, err));
        if (n_batch == 0) return qn__session_too_large(engine, w.options, &shape, &w.estimate, w.left, err);
        status = create(engine, &shape, &w, out, err);
    }
    /* Several sequences, or texts, share the cells: none of them need be long. */
    if (status == QN_OK && shape.n_seq == 1 && !shape.embeddings) warn_beyond_training(*out, shape.n_ctx);
    return status;
}

qn_status qn_session_create(qn_engine *engine, const qn_session_options *options, qn_session **out, qn_error *err)
{
    const uint64_t fp = qn__fp_begin();
    const qn_status status = create_or_shrink(engine, options, out, err);
    qn__fp_end(fp);
    return status;
}

void qn_session_destroy(qn_session *s)
{
    if (!s) return;
    qn__worker_destroy(s->worker); /* waits */
    qn__pager_changed(s->engine->pager);
    qn__devices_take(s->engine, &s->turn);
    qn__sched_destroy(s->sched);
    for (int p = 0; p < QN_MAX_PLACES; p++) {
        if (s->kv_buffers[p]) s->kv_buffers[p]->backend->type->buffer_destroy(s->kv_buffers[p]);
        if (s->list_buffers[p]) s->list_buffers[p]->backend->type->buffer_destroy(s->list_buffers[p]);
    }
    qn__devices_give(s->engine, &s->turn);
    qn__turns_forget(&s->engine->turns, &s->turn);
    qn__taps_destroy(s->taps);
    qn__session_end_comparison(s);
    qn__memory_deinit(&s->memory);
    qn__free(s->tokens);
    qn__free(s->items);
    qn__free(s->times.ns);
    qn__free(s->logits);
    qn_arena arena = s->arena; /* the session lies inside it */
    qn__arena_deinit(&arena);
}

/* ---- adapters ---- */

/* Those opened since the last plan may need more room than it has. */
static qn_status plan_for(qn_session *s, const qn_lora_set *set, qn_error *err)
{
    bool planned = true;
    for (int32_t i = 0; i < set->n; i++) planned = planned && set->use[i].adapter->id <= s->planned_lora;
    if (planned) return QN_OK;
    s->last = NULL; /* reserving may move what it ran in */
    qn__devices_take(s->engine, &s->turn);
    const qn_status status = reserve(s, NULL, NULL, err);
    qn__devices_give(s->engine, &s->turn);
    return status;
}

qn_status qn_session_set_loras(qn_session *s, const qn_lora_use *loras, int32_t n_loras, qn_error *err)
{
    qn_lora_set set;
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(qn__lora_set(s->engine, loras, n_loras, &set, err));
    QN_TRY(plan_for(s, &set, err));
    s->shape.loras = set;
    return QN_OK;
}

qn_status qn__session_decode_set(qn_session *s, const qn_lora_set *set, const qn_batch_item *items, int32_t n,
                                 qn_error *err)
{
    const qn_lora_set own = s->shape.loras;
    QN_TRY(qn__session_check(s, items, n, err));
    QN_TRY(plan_for(s, set, err));
    s->shape.loras = *set;
    const qn_status status = qn__session_decode(s, items, n, err);
    s->shape.loras = own;
    return status;
}

qn_status qn_session_decode_with(qn_session *s, const qn_lora_use *loras, int32_t n_loras, const qn_batch_item *items,
                                 int32_t n, qn_error *err)
{
    qn_lora_set set;
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(qn__lora_set(s->engine, loras, n_loras, &set, err));
    return qn__session_decode_set(s, &set, items, n, err);
}

/* ---- running a chunk ---- */

static qn_status set_input(qn_exec *e, const char *name, const int32_t *values, int64_t n, qn_error *err)
{
    const qn_node *node = qn__exec_find(e, name);
    /* an input that nothing reads is gone */
    return node ? qn__exec_set(e, node, values, (uint64_t)n * sizeof(int32_t), err) : QN_OK;
}

static bool call_eval(void *ctx, const qn_node *node, bool after)
{
    qn_session *s = ctx;
    return s->eval(s->eval_ctx, node, after);
}

/* What a chunk has less than its graph writes nothing, sees nothing, and is computed for nothing. */
static void pad(qn_session *s, int32_t n, int32_t n_out, qn_sizes sizes)
{
    const qn_model *m = s->engine->model;
    const int32_t span = qn__span_size(m);
    for (int32_t i = n; i < sizes.n_tokens; i++) {
        s->tokens[i] = s->pos[i] = 0;
        for (int g = 0; g < m->n_groups; g++) s->rows[(int64_t)g * sizes.n_tokens + i] = -1;
        for (int k = 0; k < m->n_sights; k++)
            memset(s->spans + ((int64_t)k * sizes.n_tokens + i) * span, 0, (size_t)span * sizeof(*s->spans));
    }
    for (int32_t i = n_out; i < sizes.n_out; i++) s->out_ids[i] = 0;
}

/* Lists of cells and inputs. */
static qn_status upload(qn_session *s, qn_exec *e, qn_sizes sizes, qn_error *err)
{
    const int32_t n = sizes.n_tokens, n_out = sizes.n_out, span = qn__span_size(s->engine->model);
    const uint64_t began = qn__trace_begin();
    QN_TRY(qn__session_send_lists(s, e, n, err));
    QN_TRY(set_input(e, "tokens", s->tokens, n, err));
    QN_TRY(set_input(e, "pos", s->pos, n, err));
    for (int g = 0; g < s->engine->model->n_groups; g++)
        QN_TRY(set_input(e, qn__row_names[g], s->rows + (int64_t)g * n, n, err));
    for (int i = 0; i < s->engine->model->n_sights; i++)
        QN_TRY(set_input(e, qn__span_names[i], s->spans + (int64_t)i * n * span, (int64_t)n * span, err));
    QN_TRY(set_input(e, "out_ids", s->out_ids, n_out, err));
    qn__trace_end(QN_TRACE_upload, began);
    return QN_OK;
}

/* The first n tokens are somebody's. */
static qn_status compute(qn_session *s, qn_exec *e, qn_sizes sizes, int32_t n, int32_t n_logits, qn_error *err)
{
    QN_TRY(upload(s, e, sizes, err));
    if (s->timing) QN_TRY(qn__exec_prepare_times(e, &s->times, err));
    qn_pager *pager = s->engine->pager;
    QN_TRY(qn__pager_begin(pager, e, err));
    const qn_trace_facts facts = {.session = s->number,
                                  .n_tokens = n,
                                  .n_rows = sizes.n_tokens,
                                  .n_out = n_logits,
                                  .n_sights = s->engine->model->n_sights,
                                  .span_size = qn__span_size(s->engine->model),
                                  .tokens = s->tokens,
                                  .pos = s->pos,
                                  .spans = s->spans,
                                  .sight_names = qn__span_names,
                                  .ids_name = qn__role_name(QN_ROLE_ffn_moe_topk),
                                  .gates_name = qn__role_name(QN_ROLE_ffn_moe_weights)};
    const qn_run run = {.eval = s->eval ? call_eval : NULL,
                        .eval_ctx = s,
                        .tap = s->taps ? qn__taps_run : NULL,
                        .tap_ctx = s->taps,
                        .page = qn__pager_works(pager) ? qn__pager_use : NULL,
                        .page_ctx = pager,
                        .unwanted = s->taps ? NULL : s->unwanted,
                        .node_ns = s->timing ? s->times.ns : NULL,
                        .facts = &facts};
    s->last = e;
    s->last_timed = s->timing;
    s->running = e;
    s->running_tokens = n;
    qn_status status = qn__taps_stepped(s->taps, qn__exec_run(e, &run, err), err);
    qn__pager_end(pager, n);
    s->running = NULL;
    if (status != QN_OK) return qn__comparison_why(s, qn__taps_why(s->taps, status, err), err);
    s->stats.n_splits = qn__exec_n_segments(e);
    s->stats.n_transfers = qn__exec_n_transfers(e);
    if (n_logits == 0) return QN_OK;
    const uint64_t width = (uint64_t)qn__output_width(s->engine, &s->shape);
    float *to = s->logits + (uint64_t)s->n_logits * width;
    const qn_node *rows = qn__exec_find(e, s->shape.embeddings ? "hidden" : "logits");
    const uint64_t began = qn__trace_begin();
    QN_TRY(qn__exec_get(e, rows, to, 0, (uint64_t)n_logits * width * sizeof(float), err));
    qn__trace_end(QN_TRACE_download, began);
    s->n_logits += n_logits;
    return QN_OK;
}

/* The part of its list that a token sees: its row, the first place and one past the last. */
static void look(const qn_session *s, int k, const qn_batch_item *item, int32_t *span)
{
    const qn_model *m = s->engine->model;
    const qn_kv *kv = &s->memory.kv[m->group_of[k]];
    int32_t first, end; /* positions */
    qn__sight_range(&m->sights[k], item->pos, &first, &end);
    const int32_t start = qn__kv_start(kv, item->seq);
    span[0] = item->seq;
    span[1] = start + (first ? qn__kv_lower(kv, item->seq, first) : 0);
    span[2] = start + qn__kv_lower(kv, item->seq, end);
    if (m->alibi) span[3] = item->pos;
}

static qn_status check_sees(const qn_session *s, const qn_batch_item *item, qn_error *err)
{
    if (qn__memory_sees(&s->memory, item->seq, item->pos)) return QN_OK;
    return QN_FAIL(
        err, state,
        "position %d of sequence %d sees what its layers with a window have forgotten; the sequence can go on "
        "from position %d, or anew",
        item->pos, item->seq, qn__memory_back(&s->memory, item->seq));
}

/* All that the chunk sees is held, whatever chunks before it made the sequences forget, and there is room for it. */
static qn_status make_room(qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err)
{
    int32_t seq = 0;
    qn__memory_begin(&s->memory);
    for (int32_t i = 0; i < n; i++) {
        QN_TRY(check_sees(s, &items[i], err));
        qn__memory_expect(&s->memory, items[i].seq, items[i].pos);
    }
    if (qn__memory_make_room(&s->memory, &seq)) return QN_OK;
    return QN_FAIL(err, state,
                   "layers with a window have no room for the tokens of sequence %d: they must come in order of "
                   "position",
                   seq);
}

/* Cells first, then what each token sees, whatever order the items came in. */
static qn_status decode_chunk(qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err)
{
    int32_t n_out = 0, n_logits = 0, added = 0;
    qn_exec *e = NULL;
    qn_sizes sizes;
    for (int32_t i = 0; i < n; i++) n_logits += items[i].logits;
    /* A chunk that wants no logits still yields one row, so that it shares the graph of one that does. */
    QN_TRY(qn__session_exec(s, n, n_logits ? n_logits : 1, &e, &sizes, err));
    qn_status status = make_room(s, items, n, err);
    for (; status == QN_OK && added < n; added++) {
        const qn_batch_item *item = &items[added];
        if (qn__memory_add(&s->memory, item->seq, item->pos, item->token, s->rows + added, sizes.n_tokens)) continue;
        status = QN_FAIL(err, invalid, "position %d of sequence %d is taken already", item->pos, item->seq);
        break;
    }
    for (int32_t i = 0; status == QN_OK && i < n; i++) {
        const qn_batch_item *item = &items[i];
        s->tokens[i] = item->token;
        s->pos[i] = item->pos;
        for (int k = 0; k < s->engine->model->n_sights; k++)
            look(s, k, item, s->spans + ((int64_t)k * sizes.n_tokens + i) * qn__span_size(s->engine->model));
        if (item->logits) s->out_ids[n_out++] = i;
    }
    if (status == QN_OK && s->taps) status = qn__taps_ready(s->taps, e, items, n, n_logits, err);
    if (status == QN_OK) {
        pad(s, n, n_out, sizes);
        status = compute(s, e, sizes, n, n_logits, err);
    }
    if (status == QN_OK) return QN_OK;
    for (int32_t i = 0; i < added; i++) qn__memory_take_back(&s->memory, items[i].seq, items[i].pos);
    qn__session_lists_anew(s);
    return status;
}

/* ---- decode ---- */

#define MAX_POS (INT32_MAX - 2) /* so that one past it, and "to the end", are numbers too */

qn_status qn__session_check_token(const qn_session *s, int64_t i, qn_token token, qn_error *err)
{
    const int32_t n_vocab = (int32_t)s->engine->model->hp.n_vocab;
    if (token >= 0 && token < n_vocab) return QN_OK;
    return QN_FAIL(err, invalid, "token %lld of the batch is %d; 0 to %d are in the vocabulary", (long long)i, token,
                   n_vocab - 1);
}

int32_t qn__session_positions(const qn_session *s)
{
    const qn_weight *learned = s->engine->model->top.pos_embd;
    return learned ? (int32_t)learned->shape.dim[0] : MAX_POS + 1;
}

qn_status qn__session_at_once(const qn_session *s, size_t n, qn_error *err)
{
    if (!s->engine->model->sees_ahead || n <= (size_t)s->shape.n_batch) return QN_OK;
    return QN_FAIL(err, limit,
                   "%zu tokens see each other, before and after; this session computes %d at once (n_batch)", n,
                   s->shape.n_batch);
}

static qn_status check_items(const qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err)
{
    const int32_t free_cells = qn__kv_free(s->memory.kv);
    int64_t n_logits = 0;
    if (n < 1) return QN_FAIL(err, invalid, "%d tokens to decode; at least 1 is needed", n);
    if (n > free_cells)
        return QN_FAIL(err, limit, "%d tokens do not fit: %d of the context's %d cells are free", n, free_cells,
                       s->shape.n_ctx);
    QN_TRY(qn__session_at_once(s, (size_t)n, err));
    for (int32_t i = 0; i < n; i++) {
        const qn_batch_item *item = &items[i];
        QN_TRY(qn__session_check_token(s, i, item->token, err));
        if (item->pos < 0 || item->pos > MAX_POS)
            return QN_FAIL(err, invalid, "token %d of the batch has position %d; 0 to %d are possible", i, item->pos,
                           MAX_POS);
        if (item->pos >= qn__session_positions(s))
            return QN_FAIL(err, invalid, "token %d of the batch has position %d; %s was trained for %d", i, item->pos,
                           s->engine->model->arch->name, qn__session_positions(s));
        if (item->seq < 0 || item->seq >= s->shape.n_seq)
            return QN_FAIL(err, invalid, "token %d of the batch is of sequence %d; this session has 0 to %d", i,
                           item->seq, s->shape.n_seq - 1);
        QN_TRY(check_sees(s, item, err));
        n_logits += item->logits;
    }
    if (n_logits > s->shape.n_logits)
        return QN_FAIL(err, limit, "logits of %lld tokens are wanted; this session keeps %d rows (n_logits)",
                       (long long)n_logits, s->shape.n_logits);
    return QN_OK;
}

qn_status qn__session_check(const qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    if (s->running) return QN_FAIL(err, state, "a run of this session is under way, and calls what calls this");
    if (s->shape.embeddings)
        return QN_FAIL(err, state, "this session is for embeddings and has no logits (qn_session_embeddings)");
    return check_items(s, items, n, err);
}

enum { CHUNK_MS = 100, LEAST_CHUNK = 16 }; /* of the time that others wait, and tokens, however slow */

static bool shared(qn_session *s)
{
    bool shared = qn__turns_shared(&s->engine->turns, &s->turn);
    for (int p = 0; p < s->engine->n_backends; p++) {
        qn_backend *be = s->engine->backends[p];
        shared |= be->type->shared && be->type->shared(be);
    }
    return shared;
}

/* All that fits, unless others compute too, in this engine or another: then what is done soon. */
static int32_t chunk_size(qn_session *s, int32_t n)
{
    if (n > s->shape.n_batch) n = s->shape.n_batch;
    if (n <= LEAST_CHUNK || s->token_s <= 0 || s->engine->model->sees_ahead || !shared(s)) return n;
    const double soon = CHUNK_MS * 1e-3 / s->token_s;
    const int32_t most = soon > LEAST_CHUNK ? (int32_t)(soon < n ? soon : n) : LEAST_CHUNK;
    return n < most ? n : most;
}

void qn_session_stop(qn_session *s, bool stop) { atomic_store(&s->stop, stop); }

static qn_status run_chunk(qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err)
{
    if (s->unwanted && atomic_load_explicit(s->unwanted, memory_order_relaxed))
        return QN_FAIL(err, cancelled, "stopped");
    qn__turns_take(&s->engine->turns, &s->turn);
    const int64_t start = qn__now_ns();
    const uint64_t fp = qn__fp_begin(); /* attributes of graphs are computed here, and rows written */
    const qn_status status = decode_chunk(s, items, n, err);
    qn__fp_end(fp);
    const double token_s = (double)(qn__now_ns() - start) * 1e-9 / n;
    qn__pager_give_turn(s->engine, &s->turn);
    if (status != QN_OK) return status;
    s->stats.tokens += (uint64_t)n;
    if (n >= LEAST_CHUNK) s->token_s = s->token_s > 0 ? s->token_s + (token_s - s->token_s) / 4 : token_s;
    return QN_OK;
}

qn_status qn__session_decode(qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err)
{
    const int64_t start = qn__now_ns();
    qn_status status = QN_OK;
    for (int32_t i = 0; i < n && !s->warned_ctx; i++) warn_beyond_training(s, (int64_t)items[i].pos + 1);
    s->n_logits = 0;
    for (int32_t i = 0, chunk; i < n && status == QN_OK; i += chunk) {
        chunk = chunk_size(s, n - i);
        status = run_chunk(s, items + i, chunk, err);
    }
    s->stats.seconds += (double)(qn__now_ns() - start) * 1e-9;
    return status;
}

qn_status qn_session_decode(qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err)
{
    QN_TRY(qn__session_check(s, items, n, err));
    return qn__session_decode(s, items, n, err);
}

qn_status qn_session_feed(qn_session *s, int32_t seq, const qn_token *tokens, size_t n, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    if (seq < 0 || seq >= s->shape.n_seq)
        return QN_FAIL(err, invalid, "sequence %d; this session has 0 to %d", seq, s->shape.n_seq - 1);
    const int32_t free_cells = qn__kv_free(s->memory.kv);
    if (n == 0) return QN_FAIL(err, invalid, "no tokens to decode");
    if (n > (size_t)free_cells)
        return QN_FAIL(err, limit, "%zu tokens do not fit: %d of the context's %d cells are free", n, free_cells,
                       s->shape.n_ctx);
    QN_TRY(qn__session_at_once(s, n, err));
    const int32_t first = qn_session_seq_pos_max(s, seq) + 1;
    if (n > (size_t)(MAX_POS + 1 - first))
        return QN_FAIL(err, limit, "%zu tokens after position %d; the last possible one is %d", n, first - 1, MAX_POS);
    /* before the first is computed */
    for (size_t i = 0; i < n; i++) QN_TRY(qn__session_check_token(s, (int64_t)i, tokens[i], err));
    for (size_t i = 0; i < n;) {
        int32_t k = 0;
        for (; k < s->shape.n_batch && i < n; k++, i++)
            s->items[k] = (qn_batch_item){tokens[i], first + (int32_t)i, seq, i + 1 == n};
        QN_TRY(qn_session_decode(s, s->items, k, err));
    }
    return QN_OK;
}
