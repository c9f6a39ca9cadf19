/* SPDX-License-Identifier: MIT */
/* tests/fuzz/serve_rig.h -- a server without sockets, threads and a batcher: requests are read, answered by what an
 * input says in the model's place, and written, all on one thread. Everything of src/serve is the program's but
 * http*.c, pump.c, work.c, page.c and server.c; the linker gives qn_batcher_submit and its siblings to us (--wrap). The
 * model has the words and the template of models/chat.gguf, and weights that cost nothing. */
#ifndef QN_FUZZ_SERVE_RIG_H
#define QN_FUZZ_SERVE_RIG_H

#include "serve/answers.h"
#include "serve/responses.h"
#include "serve/routes.h"
#include <quern/gguf.h>

#include "require.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the server would have of the files that are left out ---- */

void http_resume(exchange *x) { (void)x; }
void pump_notify(server *s) { (void)s; }
void work_add(exchange *x) { (void)x; }
void serve_index(exchange *x) { (void)x; }
void serve_page(exchange *x) { (void)x; }

/* ---- a batcher that takes requests, and says what it is told to ---- */

typedef struct mock_request {
    qn_batch_fn fn;
    void *ctx;
    int32_t n_prompt, max_tokens, n_top;
    bool logprobs, cancelled;
} mock_request;

static struct {
    server s;
    model *m;
    qn_token *script; /* [n_script] what the model says, to each request */
    size_t n_script;
    mock_request requests[MAX_ANSWERS];
    int n_requests;
} mock;

qn_status __wrap_qn_batcher_submit(qn_batcher *b, const qn_batch_request *r, uint64_t *id, qn_error *err);
void __wrap_qn_batcher_cancel(qn_batcher *b, uint64_t id);
void __wrap_qn_batcher_pause(qn_batcher *b, uint64_t id, bool paused);

static qn_status mock_refuse(qn_error *err, qn_status status, const char *why)
{
    *err = (qn_error){.status = status};
    snprintf(err->text, sizeof(err->text), "%s", why);
    return status;
}

qn_status __wrap_qn_batcher_submit(qn_batcher *b, const qn_batch_request *r, uint64_t *id, qn_error *err)
{
    qn_sampler *sampler = NULL;
    qn_matcher *matcher = NULL;
    REQUIRE(r->n_prompt > 0 && r->n_prompt <= (size_t)qn_batcher_n_ctx(b) && r->fn && r->sampler && r->key);
    REQUIRE(r->max_tokens >= 0 && r->n_top >= 0 && r->n_top <= QN_BATCH_MAX_TOP);
    for (size_t i = 0; i < r->n_prompt; i++) REQUIRE(r->prompt[i] >= 0 && r->prompt[i] < mock.m->info.n_vocab);
    if (mock.n_requests == MAX_ANSWERS) return mock_refuse(err, QN_STATUS_limit, "the queue is full");
    qn_status status = qn_sampler_create(r->sampler, mock.m->info.n_vocab, mock.m->tok, &sampler, err);
    if (status == QN_OK && r->grammar) status = qn_matcher_create(r->grammar, mock.m->tok, &matcher, err);
    qn_matcher_destroy(matcher);
    qn_sampler_destroy(sampler);
    if (status != QN_OK) return status;
    mock.requests[mock.n_requests++] =
        (mock_request){r->fn, r->ctx, (int32_t)r->n_prompt, r->max_tokens, r->n_top, r->logprobs, false};
    *id = (uint64_t)mock.n_requests;
    return QN_OK;
}

void __wrap_qn_batcher_cancel(qn_batcher *b, uint64_t id)
{
    (void)b;
    REQUIRE(id > 0 && id <= (uint64_t)mock.n_requests);
    mock.requests[id - 1].cancelled = true;
}

void __wrap_qn_batcher_pause(qn_batcher *b, uint64_t id, bool paused) { (void)b, (void)id, (void)paused; }

static void mock_pump(void)
{
    choice *c = mock.s.ready;
    mock.s.ready = NULL;
    while (c) {
        choice *next = c->next_ready;
        choice_pump(c);
        c = next;
    }
}

static void mock_token(const mock_request *r, uint64_t id, size_t at, qn_batch_usage usage)
{
    qn_batch_logprob top[QN_BATCH_MAX_TOP];
    for (int i = 0; i < r->n_top; i++)
        top[i] = (qn_batch_logprob){(qn_token)((int)at + i) % mock.m->info.n_vocab, -1.5f * (float)i};
    r->fn(r->ctx, &(qn_batch_event){.kind = QN_BATCH_token,
                                    .request = id,
                                    .token = mock.script[at],
                                    .logprob = -0.25f,
                                    .top = top,
                                    .n_top = r->n_top,
                                    .usage = usage});
}

/* All that the request gets; fails: it ends with an error. */
static void mock_answer(int i, bool each, bool fails)
{
    static const qn_error broken = {.status = QN_STATUS_limit, .text = "the request's own error"};
    const mock_request *r = &mock.requests[i]; /* cancelled while it goes on */
    const uint64_t id = (uint64_t)i + 1;
    qn_batch_usage usage = {.n_prompt = r->n_prompt, .n_read = r->n_prompt, .n_cached = r->n_prompt / 2};
    qn_batch_end end = QN_BATCH_END_stop;
    r->fn(r->ctx, &(qn_batch_event){.kind = QN_BATCH_progress, .request = id, .usage = usage});
    if (each) mock_pump();
    for (size_t at = 0; at < mock.n_script && !r->cancelled; at++) {
        if (qn_tokenizer_is_eog(mock.m->tok, mock.script[at])) break;
        usage.n_generated++;
        mock_token(r, id, at, usage);
        if (each) mock_pump();
        if (r->max_tokens && usage.n_generated == r->max_tokens) {
            end = QN_BATCH_END_length;
            break;
        }
    }
    if (fails) end = QN_BATCH_END_error;
    if (r->cancelled) end = QN_BATCH_END_cancelled;
    r->fn(r->ctx, &(qn_batch_event){.kind = QN_BATCH_end,
                                    .request = id,
                                    .end = end,
                                    .usage = usage,
                                    .error = end == QN_BATCH_END_error ? &broken : NULL});
    if (each) mock_pump();
}

/* ---- a request ---- */

/* An input of fuzz_serve: the endpoint's letter, a digit of flags, the body, and behind a byte 1 what the model says.
 */
static const char *const mock_paths[] = {
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/responses/input_tokens",
    "/v1/messages",         "/api/chat",       "/api/generate", "/v1/messages/count_tokens",
    "/completion",          "/tokenize",       "/detokenize",   "/apply-template",
    "/v1/embeddings",       "/embedding",      "/api/embed",    "/api/embeddings",
    "/v1/rerank",           "/api/show",
};
enum { MOCK_PATHS = sizeof(mock_paths) / sizeof(mock_paths[0]) };

/* Where an input does not tell. */
#define MOCK_SAID "<think>hm</think>ok <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"

static exchange *mock_exchange(const char *path, const char *body, size_t n)
{
    bool other;
    exchange *x = calloc(1, sizeof(*x));
    if (!x || !(x->path = strdup(path))) {
        free(x);
        return NULL;
    }
    x->server = &mock.s;
    x->refs = 1;
    x->fd = -1;
    x->id = 1;
    pthread_mutex_init(&x->lock, NULL);
    x->route = route_find("POST", x->path, &x->rest, &other);
    REQUIRE(x->route);
    mock.s.exchanges = x;
    mock.s.n_exchanges = 1;
    text_put(&x->body, body, n);
    if (!x->body.failed) return x;
    exchange_release(x);
    return NULL;
}

enum {
    MOCK_leaves = 1,
    MOCK_each = 2,
    MOCK_fails = 4
}; /* the client, after the first answer; pieces token by token; the model */

/* A request and its answers; the caller looks at the reply, then calls mock_done. NULL: no memory for it. */
static exchange *mock_serve(const char *path, const char *body, size_t n, int flags)
{
    mock.n_requests = 0;
    exchange *x = mock_exchange(path, body, n);
    if (!x) return NULL;
    if (loader_enter(x)) exchange_handle(x);
    for (int i = 0; i < mock.n_requests; i++) {
        mock_answer(i, flags & MOCK_each, flags & MOCK_fails);
        if (!(flags & MOCK_leaves)) continue;
        x->gone = true;
        answers_cancel(x);
    }
    while (mock.s.ready) mock_pump();
    return x;
}

static void mock_done(exchange *x)
{
    REQUIRE(x->refs == 1);
    exchange_release(x);
    REQUIRE(!mock.s.exchanges && mock.s.n_exchanges == 0 && mock.m->n_users == 0);
    responses_deinit(&mock.s);
    mock.s.responses = NULL;
}

/* ---- the model ---- */

static char *mock_template(const char *path)
{
    qn_gguf *file = NULL;
    REQUIRE(qn_gguf_open(path, NULL, &file, NULL) == QN_OK);
    qn_gguf_str source;
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, "tokenizer.chat_template");
    REQUIRE(kv && qn_gguf_get_str(file, kv, 0, &source, NULL) == QN_OK);
    char *copy = strndup(source.data, source.len);
    qn_gguf_close(file);
    return copy;
}

static char mock_path[64];
static void mock_remove(void) { unlink(mock_path); }

/* words: models/chat.gguf. */
static void mock_start(const char *words)
{
    problem p = {0};
    qn_error err;
    server *s = &mock.s;
    text_watch();
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->events_lock, NULL);
    pthread_mutex_init(&s->responses_lock, NULL);
    pthread_mutex_init(&s->catalog_lock, NULL);
    pthread_mutex_init(&s->models_lock, NULL);
    pthread_cond_init(&s->job_came, NULL);
    pthread_cond_init(&s->models_changed, NULL);
    snprintf(mock_path, sizeof(mock_path), P_tmpdir "/serve-rig-%d.gguf", (int)getpid());
    atexit(mock_remove);
    const qn_synth_options synth = {.arch = "llama",
                                    .n_layer = 1,
                                    .n_embd = 32,
                                    .n_head = 2,
                                    .n_kv_head = 1,
                                    .n_ff = 32,
                                    .n_vocab = 0,
                                    .n_ctx = 512,
                                    .vocab = words};
    if (qn_synth(mock_path, &synth, NULL, NULL, &err) != QN_OK) fprintf(stderr, "%s\n", err.text), abort();
    s->o = (serve_options){.max_body = 1 << 20, .keep_alive_s = -1, .template_source = mock_template(words)};
    s->o.engine.n_threads = 1;
    s->o.batcher.session = (qn_session_options){.n_ctx = 512, .n_batch = 64};
    s->o.n_models = 1;
    mock.m = s->models = catalog_new(s, "chat", mock_path, NULL);
    REQUIRE(mock.m && model_load(mock.m, 0, &p));
    mock.m->state = MODEL_loaded;
}

static void mock_says(const char *words, size_t n)
{
    size_t n_ids = 0;
    qn_token *ids = NULL;
    const qn_tokenize_options o = {.no_bos = true};
    REQUIRE(qn_tokenize(mock.m->tok, words, n, &o, &ids, &n_ids, NULL) == QN_OK);
    qn_free(mock.script);
    mock.script = ids;
    mock.n_script = n_ids;
}

#endif
