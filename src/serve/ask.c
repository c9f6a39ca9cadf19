/* SPDX-License-Identifier: MIT */
/* src/serve/ask.c -- from a request, in whatever dialect it came, to answers under way. On a worker's thread. */
#include "serve/answers.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

void ask_init(ask *q, const exchange *x)
{
    model *m = x->model;
    *q = (ask){.sampler = m->sampler,
               .n = 1,
               .max_tokens = m->max_tokens,
               .shift = m->server->o.context_shift,
               .n_keep = m->n_keep,
               .model = x->adapter ? x->named : m->name};
    for (int i = 0; i < m->n_stops; i++) q->stop[q->n_stop++] = m->stops[i];
    ask_loras_init(q, x);
}

void ask_deinit(ask *q)
{
    json_decref(q->body);
    json_decref(q->messages);
    json_decref(q->tools);
    json_decref(q->own);
    for (int i = 0; i < q->n_prompts; i++) free(q->prompts[i].ids);
    free(q->prompts);
    free(q->kwargs);
    free(q->schema);
    free(q->bias);
    free(q->breakers);
    *q = (ask){0};
}

/* ---- the prompt ---- */

static const char *piece_of(const model *m, qn_token id)
{
    size_t len;
    return id == QN_TOKEN_NONE ? NULL : qn_tokenizer_piece(m->tok, id, &len);
}

static const char *prompt_field(const ask *q)
{
    return q->prompt_field ? q->prompt_field : q->messages ? "messages" : "prompt";
}

static bool no_memory(problem *p) { return problem_set(p, 503, "", "out of memory"); }

/* The model's own, where the conversation has none. */
static void add_system(ask *q, const model *m)
{
    const char *role = json_string_value(json_object_get(json_array_get(q->messages, 0), "role"));
    if (!m->system || !*m->system || (role && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0))) return;
    json_t *all = json_pack("[{s:s, s:s}]", "role", "system", "content", m->system);
    if (!all || json_array_extend(all, q->messages) != 0) {
        json_decref(all);
        return;
    }
    json_decref(q->messages);
    q->messages = all;
}

static bool render(ask *q, const model *m, qn_prompt *out, problem *p)
{
    qn_error err;
    add_system(q, m);
    char *messages = json_dumps(q->messages, JSON_COMPACT), *tools = NULL;
    if (q->tools) tools = json_dumps(q->tools, JSON_COMPACT);
    qn_chat_options o = q->chat;
    o.tools = tools;
    o.kwargs = q->kwargs;
    o.bos = piece_of(m, qn_tokenizer_bos(m->tok));
    o.eos = piece_of(m, qn_tokenizer_eos(m->tok));
    bool good = messages && (tools || !q->tools);
    if (!good) {
        no_memory(p);
    } else if (q->tools && !m->needs.tools) {
        good = problem_set(p, 400, "tools", "the model's template has no place for tools");
    } else {
        const qn_status status = qn_chat_render(m->tmpl, messages, &o, out, &err);
        good = status == QN_OK;
        if (status == QN_STATUS_cancelled)
            problem_set(p, 400, prompt_field(q), "the model's template refuses the conversation: %s", err.text);
        else if (!good)
            problem_error(p, prompt_field(q), &err);
    }
    free(messages);
    free(tools);
    return good;
}

bool ask_add_prompt(ask *q, const qn_token *ids, size_t n, problem *p)
{
    id_list *more = realloc(q->prompts, ((size_t)q->n_prompts + 1) * sizeof(*more));
    qn_token *copy = malloc((n + 1) * sizeof(*copy));
    if (more) q->prompts = more;
    if (!more || !copy) {
        free(copy);
        return no_memory(p);
    }
    if (n) memcpy(copy, ids, n * sizeof(*copy));
    q->prompts[q->n_prompts++] = (id_list){copy, n};
    return true;
}

bool ask_extend_prompt(ask *q, const qn_token *ids, size_t n, problem *p)
{
    id_list *last = &q->prompts[q->n_prompts - 1];
    qn_token *more = realloc(last->ids, (last->n + n + 1) * sizeof(*more));
    if (!more) return no_memory(p);
    last->ids = more;
    if (n) memcpy(last->ids + last->n, ids, n * sizeof(*ids));
    last->n += n;
    return true;
}

bool ask_prompt(ask *q, const model *m, qn_prompt *prompt, problem *p)
{
    qn_error err;
    qn_token *ids = NULL;
    size_t n = 0;
    qn_status status;
    if (q->n_prompts) return true;
    if (q->messages) {
        if (!render(q, m, prompt, p)) return false;
        status = qn_prompt_tokenize(prompt, m->tok, &ids, &n, &err);
    } else {
        const qn_tokenize_options o = {.no_special = !q->special};
        status = qn_tokenize(m->tok, q->text ? q->text : "", q->text_len, &o, &ids, &n, &err);
    }
    const bool good = status == QN_OK ? ask_add_prompt(q, ids, n, p) : problem_error(p, prompt_field(q), &err);
    qn_free(ids);
    return good;
}

static bool fits(const ask *q, const model *m, size_t n, problem *p)
{
    if (!m->batcher) return problem_set(p, 400, "model", "%s computes embeddings; it writes no text", m->name);
    const int32_t n_ctx = model_n_ctx(m);
    if (n == 0) return problem_set(p, 400, prompt_field(q), "the prompt is empty");
    if (n <= (size_t)n_ctx) return true;
    snprintf(p->code, sizeof(p->code), "context_length_exceeded");
    return problem_set(p, 400, prompt_field(q), "the prompt has %zu tokens, the context %d", n, n_ctx);
}

/* ---- what holds the answer ---- */

bool ask_schema(ask *q, const json_t *schema, const char *field, problem *p)
{
    free(q->schema);
    q->schema = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    q->schema_field = field;
    q->schema_loose = false;
    return q->schema || no_memory(p);
}

bool ask_grammar(ask *q, const model *m, const qn_prompt *prompt, bool behind, qn_grammar **out, problem *p)
{
    qn_error err;
    qn_status status = QN_OK;
    const char *field = q->schema_field;
    const bool forced = q->tool_choice && strcmp(q->tool_choice, "auto") != 0 && strcmp(q->tool_choice, "none") != 0;
    if (q->gbnf && (q->schema || forced))
        return problem_set(p, 400, "grammar", "a grammar and %s exclude each other",
                           q->schema ? "a schema" : "a forced call");
    if (q->gbnf) {
        field = "grammar";
        status = qn_grammar_create(q->gbnf, NULL, out, &err);
    } else if (q->messages && (q->tools || q->schema)) {
        char *tools = q->tools ? json_dumps(q->tools, JSON_COMPACT) : NULL;
        if (q->tools && !tools) return no_memory(p);
        const qn_chat_constraint wanted = {
            .tools = tools,
            .tool_choice = q->tool_choice,
            .single_call = q->single_call || !m->needs.several_calls,
            .response_schema = q->schema,
            .loose_response = q->schema_loose,
            .no_reasoning = behind || (q->chat.thinking < 0 && m->needs.thinking_switch),
        };
        status = qn_chat_grammar_create(m->tmpl, m->tok, prompt, &wanted, out, &err);
        if (!q->schema) field = "tools";
        free(tools);
    } else if (q->schema) {
        status = qn_grammar_create_schema(q->schema, &(qn_schema_options){.widen = q->schema_loose}, out, &err);
    }
    return status == QN_OK || problem_error(p, field, &err);
}

static bool set_up_choice(answers *a, choice *c, int i, problem *p)
{
    const model *m = a->x->model;
    qn_error err;
    char *tools = NULL;
    c->a = a;
    c->index = i;
    if (!stop_text_init(&c->stop, a->q.stop, a->q.n_stop)) return no_memory(p);
    if (a->q.logprobs && (!(c->logprobs = json_array()) || !(c->waiting = json_array()))) return no_memory(p);
    if (a->q.return_ids && !(c->ids = json_array())) return no_memory(p);
    if (!a->q.messages) return true;
    if (a->q.tools && !(tools = json_dumps(a->q.tools, JSON_COMPACT))) return no_memory(p);
    const qn_status status = qn_chat_reader_create(m->tmpl, m->tok, tools, &a->prompt, &c->reader, &err);
    free(tools);
    return status == QN_OK || problem_error(p, "", &err);
}

static bool set_up(answers *a, ask *q, problem *p)
{
    const model *m = a->x->model;
    if (!ask_prompt(q, m, &a->prompt, p)) return false;
    for (int i = 0; i < q->n_prompts; i++) {
        if (!fits(q, m, q->prompts[i].n, p)) return false;
        a->n_prompt += q->prompts[i].n;
    }
    if (q->n_prompts * q->n > MAX_ANSWERS)
        return problem_set(p, 400, "n", "%d answers in one request; %d are possible", q->n_prompts * q->n, MAX_ANSWERS);
    if (!ask_grammar(q, m, &a->prompt, false, &a->grammar, p)) return false;
    a->q = *q;
    *q = (ask){0};
    const int n = a->q.n_prompts * a->q.n;
    a->choices = calloc((size_t)n, sizeof(*a->choices));
    if (!a->choices) return no_memory(p);
    if (!thoughts_prepare(a, p)) return false;
    a->n = n;
    for (int i = 0; i < a->n; i++)
        if (!set_up_choice(a, &a->choices[i], i, p)) return false;
    return true;
}

/* ---- handing over ---- */

/* What a choice whose thoughts were ended has read and said. */
static qn_token *rest_of(const choice *c, const id_list *prompt, size_t *n)
{
    const size_t n_said = c->said.n / sizeof(qn_token);
    qn_token *ids = c->said.failed ? NULL : malloc((prompt->n + n_said + 1) * sizeof(*ids));
    *n = prompt->n + n_said;
    if (!ids) return NULL;
    memcpy(ids, prompt->ids, prompt->n * sizeof(*ids));
    if (n_said) memcpy(ids + prompt->n, c->said.data, c->said.n);
    return ids;
}

/* Tokens of the prompt that stay when the context is full; the one that every prompt begins with isn't counted. */
static int32_t n_kept(const ask *q, const model *m, const id_list *prompt)
{
    const bool begins = prompt->n && prompt->ids[0] == qn_tokenizer_bos(m->tok);
    return q->n_keep < 0 ? (int32_t)prompt->n : q->n_keep + begins;
}

bool ask_submit(answers *a, choice *c, problem *p)
{
    const id_list *prompt = &a->q.prompts[c->index / a->q.n];
    qn_error err;
    qn_sampler_params sampler = a->q.sampler;
    if (a->q.has_order) sampler.order = a->q.order;
    if (a->q.breakers) sampler.dry_breakers = a->q.breakers;
    sampler.seed = ask_seed(&a->q, c->index % a->q.n);
    size_t n = prompt->n;
    qn_token *all = c->forced ? rest_of(c, prompt, &n) : NULL;
    if (c->forced && !all) return no_memory(p);
    const qn_batch_request r = {
        .prompt = all ? all : prompt->ids,
        .n_prompt = n,
        .sampler = &sampler,
        .grammar = c->forced ? a->after : a->grammar,
        .max_tokens = c->forced && a->q.max_tokens ? a->q.max_tokens - c->n_tokens : a->q.max_tokens,
        .context_shift = a->q.shift && a->q.max_tokens > 0,
        .n_keep = n_kept(&a->q, a->x->model, prompt),
        .n_discard = a->q.n_discard,
        .logprobs = a->q.logprobs,
        .n_top = a->q.n_top,
        .key = a->x->key,
        .no_cache = a->q.no_cache,
        .goes_on = c->forced,
        .loras = a->q.loras,
        .n_loras = a->q.n_loras,
        .fn = answers_event,
        .ctx = c,
    };
    exchange_hold(a->x); /* until its last event was seen */
    const qn_status status = qn_batcher_submit(a->x->model->batcher, &r, &c->id, &err);
    free(all);
    c->submitted = status == QN_OK;
    if (c->submitted) {
        a->n_left++;
        return true;
    }
    exchange_release(a->x);
    return status == QN_STATUS_limit ? problem_set(p, 429, "", "%s", err.text) : problem_error(p, "", &err);
}

/* The pump waits for the lock, so that no piece comes before the beginning. */
static bool start(answers *a, problem *p)
{
    bool good = true;
    exchange *x = a->x;
    pthread_mutex_lock(&a->lock);
    pthread_mutex_lock(&x->lock);
    x->answers = a;
    pthread_mutex_unlock(&x->lock);
    for (int i = 0; i < a->n && good; i++) good = ask_submit(a, &a->choices[i], p);
    if (good && (a->q.stream || a->d->always)) a->d->begin(a);
    if (text_was_short()) good = no_memory(p);
    if (good && a->q.stream) {
        exchange_begin_stream(x);
    } else if (!good) {
        a->failed = true;
        for (int i = 0; i < a->n; i++)
            if (a->choices[i].submitted) qn_batcher_cancel(x->model->batcher, a->choices[i].id);
    }
    pthread_mutex_unlock(&a->lock);
    if (exchange_is_gone(x)) answers_cancel(x);
    return good;
}

/* One line each: JSON text. */
static void log_prompts(const answers *a)
{
    const server *s = a->x->server;
    for (int i = 0; i < a->q.n_prompts && s->o.log; i++) {
        char *words = NULL;
        size_t n = 0;
        const qn_detokenize_options o = {.show_special = true, .keep_prefix = true};
        (void)qn_detokenize(a->x->model->tok, a->q.prompts[i].ids, a->q.prompts[i].n, &o, &words, &n, NULL);
        text line = {0};
        text_printf(&line, "%llu reads ", (unsigned long long)a->x->id);
        text_json(&line, json_text(words, n));
        if (!line.failed) s->o.log(line.data);
        text_deinit(&line);
        qn_free(words);
    }
}

void ask_start(exchange *x, ask *q, problem *p)
{
    answers *a = p->status ? NULL : calloc(1, sizeof(*a));
    if (!a && !p->status) no_memory(p);
    if (a) {
        pthread_mutex_init(&a->lock, NULL);
        a->x = x;
        a->d = x->route->dialect;
        a->created = (int64_t)time(NULL);
        if (set_up(a, q, p) && (!text_was_short() || no_memory(p))) {
            if (x->server->o.log_prompts) log_prompts(a);
            (void)start(a, p); /* the exchange's from here on */
        } else {
            answers_free(a);
        }
    }
    ask_deinit(q);
    if (p->status) exchange_refuse(x, p);
}

void ask_serve(exchange *x, bool (*read)(ask *q, exchange *x, problem *p))
{
    ask q;
    problem p = {0};
    ask_init(&q, x);
    (void)read(&q, x, &p);
    ask_start(x, &q, &p);
}
