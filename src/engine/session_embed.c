/* SPDX-License-Identifier: MIT */
/* src/engine/session_embed.c -- embeddings: texts through the decode graph that ends with hidden states, pooled here.
 * What a text gives follows from its tokens alone: its hidden states do, sums go over them in order and in double
 * precision, and what comes after pooling is computed a text at a time. */
#include "engine/pager.h"
#include <math.h>
#include <string.h>

const char *qn_pooling_name(qn_pooling pooling)
{
    static const char *const names[] = {"unset",
#define NAME(name, id) #name,
                                        QN_POOLING_ROWS(NAME)
#undef NAME
    };
    return (size_t)pooling < sizeof names / sizeof names[0] ? names[pooling] : NULL;
}

bool qn_pooling_find(const char *name, qn_pooling *out)
{
    for (int i = QN_POOLING_none; i <= QN_POOLING_rank; i++) {
        if (strcmp(qn_pooling_name((qn_pooling)i), name) != 0) continue;
        *out = (qn_pooling)i;
        return true;
    }
    return false;
}

/* One call. */
typedef struct embedding {
    qn_session *s;
    const qn_embedding_text *texts;
    qn_pooling pooling, of; /* what is asked for, and which hidden states that takes */
    bool normalize;
    qn_exec *head; /* what comes after pooling; NULL: nothing */
    int32_t width; /* of a row of `out` */
    float *out;    /* the next row */
} embedding;

/* ---- what is refused ---- */

static int32_t empty_sequence(const qn_session *s, int32_t from)
{
    while (from < s->shape.n_seq && s->memory.kv->len[from] > 0) from++;
    return from < s->shape.n_seq ? from : -1;
}

static qn_status check_text(const qn_session *s, int32_t i, const qn_embedding_text *text, qn_error *err)
{
    const int32_t free_cells = qn_session_free_cells(s), positions = qn__session_positions(s);
    if (text->n_tokens < 1) return QN_FAIL(err, invalid, "text %d has no tokens", i);
    if (text->n_tokens > positions)
        return QN_FAIL(err, limit, "text %d has %d tokens; %s was trained for %d", i, text->n_tokens,
                       s->engine->model->arch->name, positions);
    if (s->engine->model->sees_ahead && text->n_tokens > s->shape.n_batch)
        return QN_FAIL(err, limit,
                       "text %d has %d tokens, which see each other; this session computes %d at once (n_batch)", i,
                       text->n_tokens, s->shape.n_batch);
    if (text->n_tokens > free_cells)
        return QN_FAIL(err, limit, "text %d has %d tokens; %d of the context's %d cells are free", i, text->n_tokens,
                       free_cells, s->shape.n_ctx);
    for (int32_t k = 0; k < text->n_tokens; k++) QN_TRY(qn__session_check_token(s, k, text->tokens[k], err));
    return QN_OK;
}

static qn_status check(const embedding *e, int32_t n_texts, qn_error *err)
{
    const qn_session *s = e->s;
    const qn_engine_info *info = &s->engine->info;
    QN_TRY(qn__session_idle(s, err));
    if (!s->shape.embeddings) return QN_FAIL(err, state, "this session was created for logits, not for embeddings");
    if (!qn_pooling_name(e->pooling)) return QN_FAIL(err, invalid, "pooling %d is unknown", (int)e->pooling);
    if (e->pooling == QN_POOLING_rank && !info->n_label)
        return QN_FAIL(err, unsupported, "%s has no head that scores texts (cls.weight, cls.output.weight)",
                       info->name[0] ? info->name : info->arch);
    if (n_texts < 1) return QN_FAIL(err, invalid, "%d texts; at least 1 is needed", n_texts);
    if (empty_sequence(s, 0) < 0)
        return QN_FAIL(err, state, "all %d sequences of this session hold something; a text needs an empty one",
                       s->shape.n_seq);
    for (int32_t i = 0; i < n_texts; i++) QN_TRY(check_text(s, i, &e->texts[i], err));
    return QN_OK;
}

/* ---- what comes after pooling ---- */

static qn_status find_head(embedding *e, qn_error *err)
{
    qn_session *s = e->s;
    const qn_top *top = &s->engine->model->top;
    const bool rank = e->pooling == QN_POOLING_rank;
    if (!rank && !top->dense_2 && !top->dense_3) return QN_OK;
    qn_decode_key key;
    const size_t key_bytes = qn__session_key(s, QN_KEY_head, rank, 0, &key);
    e->head = qn__sched_find(s->sched, &key, key_bytes); /* each time: a compiled batch may evict it */
    if (e->head) return QN_OK;
    qn_graph *graph = NULL;
    const qn_decode_spec spec = qn__decode_spec(s->engine, &s->shape, 1, 1);
    s->last = NULL; /* compiling may evict it */
    QN_TRY(qn__build_head(s->engine->model, &spec, rank, &graph, err));
    return qn__sched_compile(s->sched, graph, &key, key_bytes, &e->head, err);
}

static void normalize(float *x, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    const double factor = sum > 0 ? 1 / sqrt(sum) : 0;
    for (int32_t i = 0; i < n; i++) x[i] = (float)((double)x[i] * factor);
}

static qn_status run_head(embedding *e, const float *x, qn_error *err)
{
    const uint64_t n_embd = e->s->engine->model->hp.n_embd;
    const qn_run run = {0};
    QN_TRY(find_head(e, err));
    if (!e->head) {
        memcpy(e->out, x, n_embd * sizeof(float));
        return QN_OK;
    }
    QN_TRY(qn__exec_set(e->head, qn__exec_find(e->head, "x"), x, n_embd * sizeof(float), err));
    QN_TRY(qn__exec_run(e->head, &run, err));
    return qn__exec_get(e->head, qn__exec_find(e->head, "y"), e->out, 0, (uint64_t)e->width * sizeof(float), err);
}

/* A pooled row, [n_embd], becomes the next of `out`. */
static qn_status finish(embedding *e, const float *x, qn_error *err)
{
    qn__turns_take(&e->s->engine->turns, &e->s->turn);
    const qn_status status = run_head(e, x, err);
    qn__pager_give_turn(e->s->engine, &e->s->turn);
    if (e->normalize) normalize(e->out, e->width);
    e->out += e->width;
    return status;
}

/* ---- texts in batches ---- */

/* The hidden state of token i of n is needed. */
static bool wanted(const embedding *e, int32_t i, int32_t n)
{
    return e->of == QN_POOLING_first ? i == 0 : e->of == QN_POOLING_last ? i == n - 1 : true;
}

/* Hidden states of a text's tokens [begin, end), those that are wanted: *rows is moved behind them. */
static qn_status pool(embedding *e, const qn_embedding_text *text, int32_t begin, int32_t end, float **rows,
                      qn_error *err)
{
    const int32_t n_embd = (int32_t)e->s->engine->model->hp.n_embd;
    double *sum = e->s->sum;
    float *x = *rows;
    if (begin == 0) memset(sum, 0, (size_t)n_embd * sizeof(*sum));
    for (int32_t i = begin; i < end; i++) {
        if (!wanted(e, i, text->n_tokens)) continue;
        x = *rows;
        *rows += n_embd;
        if (e->of != QN_POOLING_mean) {
            QN_TRY(finish(e, x, err));
            continue;
        }
        for (int32_t k = 0; k < n_embd; k++) sum[k] += (double)x[k];
    }
    if (e->of != QN_POOLING_mean || end < text->n_tokens) return QN_OK;
    for (int32_t k = 0; k < n_embd; k++) x[k] = (float)(sum[k] / (double)text->n_tokens); /* in place of the last */
    return finish(e, x, err);
}

/* A text in chunks: its tokens see no later ones, or there is one chunk. */
static qn_status run_text(embedding *e, const qn_embedding_text *text, qn_error *err)
{
    qn_session *s = e->s;
    const int32_t seq = empty_sequence(s, 0), n = text->n_tokens;
    qn_status status = QN_OK;
    for (int32_t begin = 0, end; begin < n && status == QN_OK; begin = end) {
        end = n - begin < s->shape.n_batch ? n : begin + s->shape.n_batch;
        for (int32_t i = begin; i < end; i++)
            s->items[i - begin] = (qn_batch_item){text->tokens[i], i, seq, wanted(e, i, n)};
        status = qn__session_decode(s, s->items, end - begin, err);
        float *rows = s->logits;
        if (status == QN_OK) status = pool(e, text, begin, end, &rows, err);
    }
    (void)qn__memory_remove(&s->memory, seq, 0, INT32_MAX);
    return status;
}

/* Whole texts as one batch. */
static qn_status run_batch(embedding *e, const qn_embedding_text *texts, int32_t n, qn_error *err)
{
    qn_session *s = e->s;
    int32_t n_items = 0, seq = -1;
    for (int32_t t = 0; t < n; t++) {
        seq = empty_sequence(s, seq + 1);
        for (int32_t i = 0; i < texts[t].n_tokens; i++)
            s->items[n_items++] = (qn_batch_item){texts[t].tokens[i], i, seq, wanted(e, i, texts[t].n_tokens)};
    }
    const qn_status status = qn__session_decode(s, s->items, n_items, err);
    for (int32_t i = 0; i < n_items; i++)
        if (s->items[i].pos == 0) (void)qn__memory_remove(&s->memory, s->items[i].seq, 0, INT32_MAX);
    if (status != QN_OK) return status;
    float *rows = s->logits;
    for (int32_t t = 0; t < n; t++) QN_TRY(pool(e, &texts[t], 0, texts[t].n_tokens, &rows, err));
    return QN_OK;
}

/* How many of n texts are one batch; 0: the first one is longer than that. */
static int32_t batch_size(const qn_session *s, const qn_embedding_text *texts, int32_t n)
{
    int32_t k = 0;
    int64_t room = qn_session_free_cells(s) < s->shape.n_batch ? qn_session_free_cells(s) : s->shape.n_batch;
    for (int32_t seq = empty_sequence(s, 0); k < n && seq >= 0; seq = empty_sequence(s, seq + 1)) {
        room -= texts[k].n_tokens;
        if (room < 0) break;
        k++;
    }
    return k;
}

static qn_pooling states_of(const qn_session *s, qn_pooling pooling)
{
    static const qn_pooling of_head[] = {QN_POOLING_first, QN_POOLING_mean, QN_POOLING_last};
    return pooling == QN_POOLING_rank ? of_head[s->engine->model->arch->head.of] : pooling;
}

qn_status qn_session_embeddings(qn_session *s, const qn_embedding_text *texts, int32_t n_texts,
                                const qn_embedding_options *options, float *out, qn_error *err)
{
    static const qn_embedding_options defaults;
    const qn_engine_info *info = &s->engine->info;
    if (!options) options = &defaults;
    const qn_pooling pooling = options->pooling == QN_POOLING_unset ? info->pooling : options->pooling;
    embedding e = {.s = s,
                   .texts = texts,
                   .pooling = pooling,
                   .normalize = options->normalize && pooling != QN_POOLING_rank,
                   .width = pooling == QN_POOLING_rank ? info->n_label : info->n_embd_out,
                   .out = out};
    QN_TRY(check(&e, n_texts, err));
    e.of = states_of(s, pooling);
    for (int32_t i = 0, k; i < n_texts; i += k ? k : 1) {
        k = batch_size(s, texts + i, n_texts - i);
        QN_TRY(k ? run_batch(&e, texts + i, k, err) : run_text(&e, &texts[i], err));
    }
    return QN_OK;
}
