/* SPDX-License-Identifier: MIT */
/* src/serve/embeddings.c -- /v1/embeddings, /embedding, /api/embed, /api/embeddings and /rerank. One thread computes
 * them, in a session of its own that is made when the first request comes; whole texts, so that a row's bits don't
 * depend on others. */
#include "serve/ollama.h"
#include "serve/openai.h"
#include "serve/prompts.h"
#include "serve/routes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXTS = 2048 };

/* What is asked, and what came of it. */
typedef struct job {
    exchange *x;
    json_t *body;
    ask q;            /* its prompts are the texts */
    const char *name; /* of the member that they are in */
    bool several;     /* each has a place of its own in that */
    problem p;
    qn_pooling pooling;
    float *rows; /* [n_prompts, width] */
    int32_t width;
    size_t n_tokens, counted; /* counted: bytes of the reply */
} job;

static void begin(job *j, exchange *x)
{
    *j = (job){.x = x};
    ask_init(&j->q, x);
    j->body = exchange_parse(x, &j->p);
}

static void end(job *j, text *reply)
{
    if (j->p.status) {
        text_deinit(reply);
        exchange_refuse(j->x, &j->p);
    } else {
        exchange_reply(j->x, 200, reply);
    }
    json_decref(j->body);
    free(j->rows);
    ask_deinit(&j->q);
}

/* ---- computing ---- */

static bool make_session(model *m, problem *p)
{
    qn_error err;
    qn_estimate e;
    if (m->embedder) return true;
    const qn_session_options o = model_embedder_options(m);
    if (qn_engine_estimate(m->engine, &o, &e, &err) != QN_OK) return problem_error(p, "", &err);
    if (!loader_take(m, e.total_bytes, p)) return false;
    if (qn_session_create(m->engine, &o, &m->embedder, &err) == QN_OK) return true;
    atomic_fetch_sub(&m->bytes, e.total_bytes);
    atomic_fetch_sub(&m->least, e.total_bytes);
    const bool full = err.status == QN_STATUS_limit || err.status == QN_STATUS_nomem;
    return problem_set(p, full ? 503 : 500, "", "%s", err.text);
}

/* One after another, so that a client that leaves is noticed between two, and streams are computed there too. */
static void compute(job *j)
{
    model *m = j->x->model;
    qn_error err;
    const int n = j->q.n_prompts;
    if (j->x->adapter)
        problem_set(&j->p, 400, "model", "%s: embeddings are the model's, without its adapters", j->x->named);
    if (j->p.status || !make_session(m, &j->p)) return;
    const bool rank = j->pooling == QN_POOLING_rank;
    j->width = rank ? m->info.n_label : m->info.n_embd_out;
    if (rank && !j->width) {
        problem_set(&j->p, 400, "", "the model has no head for ranking");
        return;
    }
    const size_t bytes = (size_t)n * (size_t)j->width * sizeof(*j->rows);
    if (!exchange_count(j->x, bytes, &j->p)) return;
    j->rows = malloc(bytes);
    if (!j->rows) problem_set(&j->p, 503, "", "out of memory");
    for (int i = 0; i < n && !j->p.status; i++) {
        char field[48];
        const qn_embedding_text one = {j->q.prompts[i].ids, (int32_t)j->q.prompts[i].n};
        const qn_embedding_options o = {.pooling = j->pooling, .normalize = !rank};
        snprintf(field, sizeof(field), j->several ? "%s[%d]" : "%s", j->name, i);
        if (one.n_tokens == 0) problem_set(&j->p, 400, field, "the text is empty");
        j->n_tokens += j->q.prompts[i].n;
        if (exchange_is_gone(j->x)) problem_set(&j->p, 503, "", "the client is gone");
        if (!j->p.status &&
            qn_session_embeddings(m->embedder, &one, 1, &o, j->rows + (size_t)i * (size_t)j->width, &err) != QN_OK)
            problem_set(&j->p, err.status == QN_STATUS_nomem ? 503 : 400, field, "%s", err.text);
    }
}

static json_t *row_json(const job *j, int i)
{
    json_t *list = json_array();
    const float *row = j->rows + (size_t)i * (size_t)j->width;
    for (int32_t k = 0; k < j->width; k++) json_array_append_new(list, json_real((double)row[k]));
    return list;
}

/* Written at once, and counted: values of JSON for all numbers would take four times as much. */
static void put_rows(job *j, text *t, json_t *(*make)(const job *j, int i))
{
    for (int i = 0; i < j->q.n_prompts && !j->p.status; i++) {
        if (i) text_puts(t, ",");
        text_json(t, make(j, i));
        if (t->failed || !exchange_count(j->x, t->n - j->counted, &j->p)) return;
        j->counted = t->n;
    }
}

static json_t *row_base64(const job *j, int i)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const float *row = j->rows + (size_t)i * (size_t)j->width;
    const size_t n = (size_t)j->width * 4;
    text t = {0};
    unsigned char part[3];
    for (size_t at = 0; at < n; at += 3) {
        const size_t k = n - at < 3 ? n - at : 3;
        for (size_t b = 0; b < 3; b++) {
            uint32_t bits = 0;
            if (at + b < n) memcpy(&bits, &row[(at + b) / 4], sizeof(bits));
            part[b] = (unsigned char)(bits >> (at + b) % 4 * 8); /* little endian, whatever we are */
        }
        const char four[4] = {letters[part[0] >> 2], letters[(part[0] & 3) << 4 | part[1] >> 4],
                              k > 1 ? letters[(part[1] & 15) << 2 | part[2] >> 6] : '=',
                              k > 2 ? letters[part[2] & 63] : '='};
        text_put(&t, four, 4);
    }
    json_t *value = t.failed ? NULL : json_stringn(t.data, t.n);
    text_deinit(&t);
    return value;
}

/* ---- reading ---- */

static void read_texts(job *j, const char *name)
{
    const fields f = {j->body, "", &j->p};
    const json_t *value = field_get(&f, name);
    int64_t n;
    if (j->p.status) return;
    j->name = name;
    j->several = json_is_array(value) && prompts_several(value);
    (void)prompts_read(&j->q, j->x->model, &f, name, MAX_TEXTS);
    if (field_integer(&f, "dimensions", 1, INT32_MAX, &n) && n != j->x->model->info.n_embd_out)
        problem_set(&j->p, 400, "dimensions", "this model gives %d", j->x->model->info.n_embd_out);
}

static json_t *openai_row(const job *j, int i)
{
    return json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", i, "embedding", row_json(j, i));
}

static json_t *openai_base64(const job *j, int i)
{
    return json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", i, "embedding", row_base64(j, i));
}

static json_t *native_row(const job *j, int i)
{
    return json_pack("{s:i, s:[o]}", "index", i, "embedding", row_json(j, i));
}

void serve_embeddings(exchange *x)
{
    job j;
    const char *format = "float";
    text t = {0};
    begin(&j, x);
    read_texts(&j, "input");
    const fields f = {j.body, "", &j.p};
    if (!j.p.status) (void)field_string(&f, "encoding_format", &format);
    const bool base64 = strcmp(format, "base64") == 0;
    if (!base64 && strcmp(format, "float") != 0)
        problem_set(&j.p, 400, "encoding_format", "\"%.40s\" is none of float, base64", format);
    compute(&j);
    text_puts(&t, "{\"object\":\"list\",\"data\":[");
    put_rows(&j, &t, base64 ? openai_base64 : openai_row);
    text_puts(&t, "],\"model\":");
    text_json(&t, json_string(x->model->name));
    text_printf(&t, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}", j.n_tokens, j.n_tokens);
    end(&j, &t);
}

/* llama-server's */
void serve_embedding(exchange *x)
{
    job j;
    text t = {0};
    begin(&j, x);
    read_texts(&j, j.body && json_object_get(j.body, "content") ? "content" : "input");
    compute(&j);
    text_puts(&t, "[");
    put_rows(&j, &t, native_row);
    text_puts(&t, "]");
    end(&j, &t);
}

void serve_ollama_embed(exchange *x)
{
    job j;
    text t = {0};
    int64_t keep_ns = KEEP_AS_IT_IS;
    begin(&j, x);
    if (j.body) (void)ollama_keep_alive(&(fields){j.body, "", &j.p}, &keep_ns);
    read_texts(&j, "input");
    compute(&j);
    ollama_keep(x, keep_ns, &j.p);
    text_puts(&t, "{\"model\":");
    text_json(&t, json_string(x->model->name));
    text_puts(&t, ",\"embeddings\":[");
    put_rows(&j, &t, row_json);
    text_printf(&t, "],\"total_duration\":%lld,\"load_duration\":%lld,\"prompt_eval_count\":%zu}",
                (long long)(now_ns() - x->began_ns), (long long)x->load_ns, j.n_tokens);
    end(&j, &t);
}

void serve_ollama_embeddings(exchange *x)
{
    job j;
    text t = {0};
    int64_t keep_ns = KEEP_AS_IT_IS;
    begin(&j, x);
    if (j.body) (void)ollama_keep_alive(&(fields){j.body, "", &j.p}, &keep_ns);
    read_texts(&j, "prompt");
    compute(&j);
    ollama_keep(x, keep_ns, &j.p);
    if (!j.p.status) text_json(&t, json_pack("{s:o}", "embedding", row_json(&j, 0)));
    end(&j, &t);
}

/* ---- ranking ---- */

static void read_pairs(job *j, const char **query)
{
    const fields f = {j->body, "", &j->p};
    j->name = "documents";
    j->several = true;
    const json_t *documents = j->p.status ? NULL : field_array(&f, "documents"), *item;
    qn_error err;
    size_t i;
    if (j->p.status) return;
    if (!field_string(&f, "query", query) || !documents) {
        field_wrong(&f, *query ? "documents" : "query", *query ? "a list of texts" : "text");
        return;
    }
    json_array_foreach(documents, i, item)
    {
        char field[32];
        qn_token *ids = NULL;
        size_t n = 0;
        const json_t *words = json_is_object(item) ? json_object_get(item, "text") : item;
        snprintf(field, sizeof(field), "documents[%zu]", i);
        if (!json_is_string(words) || i >= MAX_TEXTS) {
            problem_set(&j->p, 400, field, i < MAX_TEXTS ? "expected text" : "more texts than are possible");
            return;
        }
        const qn_gguf_str q = {*query, strlen(*query)}, d = {json_string_value(words), json_string_length(words)};
        if (qn_engine_tokenize_pair(j->x->model->engine, q, d, &ids, &n, &err) != QN_OK)
            problem_error(&j->p, field, &err);
        else
            (void)ask_add_prompt(&j->q, ids, n, &j->p);
        qn_free(ids);
        if (j->p.status) return;
    }
}

static int by_score(const void *a, const void *b)
{
    const float x = **(const float *const *)a, y = **(const float *const *)b;
    return (x < y) - (x > y);
}

static json_t *results(const job *j, int64_t top)
{
    json_t *list = json_array();
    const int n = j->q.n_prompts;
    const float **order = calloc((size_t)n + 1, sizeof(*order));
    if (!order) text_lost();
    for (int i = 0; order && i < n; i++) order[i] = j->rows + (size_t)i * (size_t)j->width;
    if (order) qsort(order, (size_t)n, sizeof(*order), by_score);
    for (int i = 0; order && i < n && i < top; i++)
        json_array_append_new(list, json_pack("{s:I, s:f}", "index", (json_int_t)((order[i] - j->rows) / j->width),
                                              "relevance_score", (double)*order[i]));
    free(order);
    return list;
}

void serve_rerank(exchange *x)
{
    job j;
    const char *query = NULL;
    int64_t top = INT32_MAX;
    begin(&j, x);
    j.pooling = QN_POOLING_rank;
    read_pairs(&j, &query);
    const fields f = {j.body, "", &j.p};
    if (!j.p.status) (void)field_integer(&f, "top_n", 1, INT32_MAX, &top);
    compute(&j);
    text t = {0};
    if (!j.p.status)
        text_json(&t, json_pack("{s:s, s:s, s:o, s:{s:I, s:I}}", "object", "list", "model", x->model->name, "results",
                                results(&j, top), "usage", "prompt_tokens", (json_int_t)j.n_tokens, "total_tokens",
                                (json_int_t)j.n_tokens));
    end(&j, &t);
}
