/* SPDX-License-Identifier: MIT */
/* src/serve/openai_chat.c -- POST /v1/chat/completions. */
#include "serve/native.h"
#include "serve/openai.h"
#include "serve/routes.h"
#include <string.h>

/* ---- reading ---- */

/* What we know and cannot do is said, not passed over. */
static bool cannot(const fields *f)
{
    static const char *const never[] = {"functions", "function_call", "audio", "web_search_options", "prediction"};
    const json_t *modality;
    size_t i;
    bool store = false;
    for (i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        if (field_get(f, never[i])) return problem_set(f->p, 400, never[i], "this server cannot do that");
    if (field_bool(f, "store", &store) && store)
        return problem_set(f->p, 400, "store", "this server stores no completions");
    json_array_foreach(field_array(f, "modalities"), i, modality)
    {
        if (!json_is_string(modality) || strcmp(json_string_value(modality), "text") != 0)
            return problem_set(f->p, 400, "modalities", "only text can be given back");
    }
    return f->p->status == 0;
}

static bool limits(ask *q, const fields *f)
{
    int64_t n;
    if (field_integer(f, "n", 1, MAX_ANSWERS, &n)) q->n = (int)n;
    return ask_limits(q, f);
}

static bool logprobs(ask *q, const fields *f)
{
    int64_t n;
    (void)field_bool(f, "logprobs", &q->logprobs);
    if (field_integer(f, "top_logprobs", 0, QN_BATCH_MAX_TOP, &n)) {
        if (n && !q->logprobs) return problem_set(f->p, 400, "top_logprobs", "logprobs must be true for it");
        q->n_top = (int)n;
    }
    return f->p->status == 0;
}

static bool streaming(ask *q, const fields *f)
{
    const json_t *options = field_object(f, "stream_options");
    const fields of = {options, "stream_options", f->p};
    (void)field_bool(f, "stream", &q->stream);
    if (options) (void)field_bool(&of, "include_usage", &q->include_usage);
    return f->p->status == 0;
}

bool openai_chat_shape(ask *q, const fields *f)
{
    bool on;
    const char *effort;
    const json_t *kwargs = field_object(f, "chat_template_kwargs");
    if (f->p->status) return false;
    if (kwargs) {
        if (!take_json(&q->kwargs, kwargs, f->p)) return false;
        const json_t *enable = json_object_get(kwargs, "enable_thinking");
        if (json_is_boolean(enable)) q->chat.thinking = json_is_true(enable) ? 1 : -1;
    }
    if (field_string(f, "reasoning_effort", &effort) && !openai_effort(q, effort, "reasoning_effort", f->p))
        return false;
    if (field_bool(f, "add_generation_prompt", &on)) q->chat.no_generation_prompt = !on;
    if (field_bool(f, "continue_final_message", &on)) q->chat.continue_final_message = on;
    return f->p->status == 0;
}

/* Of thoughts, by either of llama-server's names; none is no thinking. */
static bool budget(ask *q, const fields *f)
{
    int64_t n = -1;
    if (!field_integer(f, "reasoning_budget_tokens", -1, INT32_MAX, &n) && f->p->status == 0)
        (void)field_integer(f, "thinking_budget_tokens", -1, INT32_MAX, &n);
    if (n == 0) q->chat.thinking = -1;
    if (n > 0) q->budget = (int)n;
    return f->p->status == 0;
}

static bool formats(ask *q, const fields *f)
{
    const json_t *format = field_get(f, "response_format"), *schema = field_get(f, "json_schema");
    if (format && !openai_format(q, format, "response_format", f->p)) return false;
    return !schema || ask_schema(q, schema, "json_schema", f->p);
}

static bool read_ask(ask *q, exchange *x, problem *p)
{
    q->body = exchange_parse(x, p);
    if (!q->body) return false;
    const fields f = {q->body, "", p};
    const json_t *messages = field_array(&f, "messages");
    if (!messages && !p->status) field_wrong(&f, "messages", "a list of messages");
    if (p->status || !cannot(&f)) return false;
    q->messages = json_incref((json_t *)messages);
    return limits(q, &f) && logprobs(q, &f) && streaming(q, &f) && openai_chat_shape(q, &f) && openai_tools(q, &f) &&
           budget(q, &f) && formats(q, &f) && ask_sampling(q, &f) && ask_stops(q, &f, "stop") &&
           ask_bias(q, x->model, &f) && ask_extras(q, x, &f) && ask_loras(q, x->model, &f);
}

void serve_chat_completions(exchange *x) { ask_serve(x, read_ask); }

/* ---- writing ---- */

static json_t *logprobs_json(choice *c)
{
    if (!c->a->q.logprobs) return json_null();
    json_t *list = c->logprobs;
    c->logprobs = json_array();
    return json_pack("{s:o, s:n}", "content", list, "refusal");
}

static void name(answers *a)
{
    if (!a->id[0]) make_id(a->id, sizeof(a->id), "chatcmpl-");
}

/* Takes what it is given. more: members beyond OpenAI's; NULL: none. */
static void chunk(answers *a, json_t *choices, json_t *usage, json_t *more)
{
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", a->id, "object", "chat.completion.chunk", "created",
                  (json_int_t)a->created, "model", a->q.model, "system_fingerprint", qn_version(), "choices", choices);
    if (a->q.include_usage) json_object_set_new(o, "usage", usage ? usage : json_null());
    if (more) json_object_update_new(o, more);
    answers_event_out(a, NULL, o);
}

static json_t *timings(const choice *c) { return json_pack("{s:o}", "timings", native_timings(c)); }

static void delta(answers *a, const choice *c, json_t *d, json_t *probabilities, const char *reason)
{
    chunk(a,
          json_pack("[{s:i, s:o, s:o, s:o}]", "index", c->index, "delta", d, "logprobs", probabilities, "finish_reason",
                    reason ? json_string(reason) : json_null()),
          NULL, reason || a->q.timings ? timings(c) : NULL);
}

static void begin(answers *a)
{
    name(a);
    for (int i = 0; i < a->n; i++)
        delta(a, &a->choices[i], json_pack("{s:s, s:s}", "role", "assistant", "content", ""), json_null(), NULL);
}

static void put_piece(answers *a, choice *c, const piece *p)
{
    json_t *d = NULL, *probabilities = NULL;
    switch (p->kind) {
    case PIECE_content:
        d = json_pack("{s:o}", "content", json_text(p->text, p->len));
        probabilities = logprobs_json(c);
        break;
    case PIECE_reasoning: d = json_pack("{s:o}", "reasoning_content", json_text(p->text, p->len)); break;
    case PIECE_call:
        d = json_pack("{s:[{s:i, s:s, s:s, s:{s:o, s:s}}]}", "tool_calls", "index", p->call, "id", c->calls[p->call].id,
                      "type", "function", "function", "name", json_text(p->text, p->len), "arguments", "");
        break;
    case PIECE_arguments:
        d = json_pack("{s:[{s:i, s:{s:o}}]}", "tool_calls", "index", p->call, "function", "arguments",
                      json_text(p->text, p->len));
        break;
    case PIECE_call_end: return;
    }
    delta(a, c, d, probabilities ? probabilities : json_null(), NULL);
}

static void progress(answers *a, choice *c)
{
    if (!a->q.progress) return;
    chunk(a, json_pack("[{s:i, s:{}, s:n, s:n}]", "index", c->index, "delta", "logprobs", "finish_reason"), NULL,
          json_pack("{s:o}", "prompt_progress", native_progress(c)));
}

static void end_choice(answers *a, choice *c)
{
    json_t *rest = json_null();
    if (a->q.logprobs && json_array_size(c->logprobs)) rest = logprobs_json(c);
    delta(a, c, json_object(), rest, finish_openai(c->finish));
}

static json_t *message(const choice *c)
{
    const bool calls = c->n_calls > 0;
    json_t *m = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                          calls && !c->content.n ? json_null() : json_text(c->content.data, c->content.n), "refusal");
    if (c->reasoning.n) json_object_set_new(m, "reasoning_content", json_text(c->reasoning.data, c->reasoning.n));
    if (!calls) return m;
    json_t *list = json_array();
    for (int i = 0; i < c->n_calls; i++) json_array_append_new(list, openai_call(&c->calls[i]));
    json_object_set_new(m, "tool_calls", list);
    return m;
}

static void end(answers *a)
{
    if (a->q.stream) {
        if (a->q.include_usage) chunk(a, json_array(), openai_usage(a), NULL);
        openai_done(a);
        return;
    }
    json_t *choices = json_array();
    name(a);
    for (int i = 0; i < a->n; i++) {
        choice *c = &a->choices[i];
        json_array_append_new(choices, json_pack("{s:i, s:o, s:o, s:s}", "index", i, "message", message(c), "logprobs",
                                                 logprobs_json(c), "finish_reason", finish_openai(c->finish)));
    }
    exchange_reply_json(a->x, 200,
                        json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:o}", "id", a->id, "object", "chat.completion",
                                  "created", (json_int_t)a->created, "model", a->q.model, "system_fingerprint",
                                  qn_version(), "choices", choices, "usage", openai_usage(a), "timings",
                                  native_timings(&a->choices[0])));
}

const dialect openai_chat_dialect = {
    .stream_type = "text/event-stream",
    .pings = true,
    .problem = openai_problem,
    .no_memory = OPENAI_NO_MEMORY,
    .begin = begin,
    .piece = put_piece,
    .end_choice = end_choice,
    .end = end,
    .broken = openai_broken,
    .progress = progress,
};
