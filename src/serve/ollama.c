/* SPDX-License-Identifier: MIT */
/* src/serve/ollama.c -- POST /api/chat and /api/generate: Ollama's requests, and their answers as lines of JSON. */
#include "serve/ollama.h"
#include "serve/openai.h"
#include "serve/routes.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- reading ---- */

/* Known options that change nothing of an answer here. */
static bool options(ask *q, const fields *f, const model *m)
{
    const json_t *own = field_object(f, "options");
    const fields of = {own, "options", f->p};
    int64_t n;
    if (!own) return f->p->status == 0;
    if (field_integer(&of, "num_predict", -2, INT32_MAX, &n)) q->max_tokens = n > 0 ? (int)n : 0;
    if (field_integer(&of, "num_keep", -1, INT32_MAX - 1, &n)) q->n_keep = (int)n;
    if (field_integer(&of, "num_ctx", 1, INT32_MAX, &n) && n > model_n_ctx(m))
        return problem_set(f->p, 400, "options.num_ctx", "%lld tokens; this server has a context of %d (--ctx-size)",
                           (long long)n, model_n_ctx(m));
    return f->p->status == 0 && ask_sampling(q, &of) && ask_stops(q, &of, "stop");
}

static bool format(ask *q, const fields *f)
{
    const json_t *value = field_get(f, "format");
    if (!value || (json_is_string(value) && !json_string_length(value))) return true;
    if (json_is_object(value)) return ask_schema(q, value, "format", f->p);
    if (!json_is_string(value) || strcmp(json_string_value(value), "json") != 0)
        return problem_set(f->p, 400, "format", "expected \"json\" or a schema");
    free(q->schema);
    q->schema_field = "format";
    q->schema = strdup("{\"type\":\"object\"}");
    return q->schema || problem_set(f->p, 503, "", "out of memory");
}

static bool think(ask *q, const fields *f)
{
    const json_t *value = field_get(f, "think");
    if (!value) return true;
    if (json_is_string(value)) return openai_effort(q, json_string_value(value), "think", f->p);
    if (!json_is_boolean(value)) return field_wrong(f, "think", "true, false or a level");
    q->chat.thinking = json_is_true(value) ? 1 : -1;
    return true;
}

/* "1h30m", "90s", "300ms" as Go writes them; a number is of seconds. */
static bool duration(const char *at, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"h", 3600}, {"m", 60}, {"s", 1}};
    const double sign = *at == '-' ? -1 : 1;
    char *end;
    at += *at == '-' || *at == '+';
    *seconds = 0;
    if (!*at) return false;
    while (*at) {
        const double x = strtod(at, &end);
        size_t i = 0;
        if (end == at || strspn(at, "0123456789.") < (size_t)(end - at)) return false;
        while (i < 6 && strncmp(end, units[i].unit, strlen(units[i].unit)) != 0) i++;
        if (i == 6 && (*end || *seconds != 0)) return false;
        *seconds += x * (i < 6 ? units[i].seconds : 1);
        at = end + (i < 6 ? strlen(units[i].unit) : 0);
    }
    *seconds *= sign;
    return true;
}

bool ollama_keep_alive(const fields *f, int64_t *ns)
{
    const json_t *value = field_get(f, "keep_alive");
    double seconds = 0;
    if (!value) return true;
    if (json_is_number(value))
        seconds = json_number_value(value);
    else if (!json_is_string(value) || !duration(json_string_value(value), &seconds))
        return problem_set(f->p, 400, "keep_alive", "expected seconds or a time such as \"5m\"");
    *ns = seconds < 0 ? -1 : seconds > 1e9 ? INT64_MAX / 2 : (int64_t)(seconds * 1e9);
    return true;
}

void ollama_keep(exchange *x, int64_t ns, const problem *p)
{
    if (!p->status && ns != KEEP_AS_IT_IS) loader_keep(x->model, ns);
}

/* Whether the answer may go on when the context is full. */
static bool shift(ask *q, const fields *f)
{
    bool wanted = q->shift;
    (void)field_bool(f, "shift", &wanted);
    if (wanted && !q->shift)
        return problem_set(f->p, 400, "shift", "this server ends answers where the context is full (--context-shift)");
    q->shift = wanted;
    return f->p->status == 0;
}

static bool common(ask *q, const fields *f, exchange *x)
{
    const model *m = x->model;
    int64_t n;
    q->stream = true;
    (void)field_bool(f, "stream", &q->stream);
    (void)field_bool(f, "logprobs", &q->logprobs);
    if (field_integer(f, "top_logprobs", 0, QN_BATCH_MAX_TOP, &n)) q->n_top = (int)n;
    return f->p->status == 0 && shift(q, f) && options(q, f, m) && format(q, f) && think(q, f);
}

static bool no_images(const json_t *object, const char *path, problem *p)
{
    char field[96];
    snprintf(field, sizeof(field), "%s%simages", path, *path ? "." : "");
    return !json_array_size(json_object_get(object, "images")) ||
           problem_set(p, 400, field, "this model reads text alone");
}

/* Theirs has arguments as an object, "thinking", and "tool_name". */
static bool add_message(json_t *messages, const json_t *message, const char *path, problem *p)
{
    const json_t *calls = json_object_get(message, "tool_calls"), *thinking = json_object_get(message, "thinking"),
                 *name = json_object_get(message, "tool_name"), *call;
    size_t i;
    if (!json_is_object(message))
        return problem_set(p, 400, path, "found %s, expected a message", json_type_name(message));
    if (!no_images(message, path, p)) return false;
    json_t *m = json_copy((json_t *)message);
    if (thinking) json_object_set(m, "reasoning_content", (json_t *)thinking);
    if (name) json_object_set(m, "name", (json_t *)name);
    if (json_is_array(calls)) {
        json_t *list = json_array();
        json_array_foreach(calls, i, call)
        {
            json_t *copy = json_copy((json_t *)call);
            json_object_set_new(copy, "type", json_string("function"));
            json_array_append_new(list, copy);
        }
        json_object_set_new(m, "tool_calls", list);
    }
    return json_array_append_new(messages, m) == 0 || problem_set(p, 503, "", "out of memory");
}

static bool read_chat(ask *q, const fields *f)
{
    const json_t *messages = field_array(f, "messages"), *message;
    char path[48];
    size_t i;
    if (!messages) return f->p->status ? false : field_wrong(f, "messages", "a list of messages");
    q->messages = json_array();
    json_array_foreach(messages, i, message)
    {
        snprintf(path, sizeof(path), "messages[%zu]", i);
        if (!add_message(q->messages, message, path, f->p)) return false;
    }
    return openai_tools(q, f);
}

static bool read_generate(ask *q, const fields *f)
{
    static const char *const never[] = {"template", "context", "suffix"};
    bool raw = false;
    const json_t *prompt = field_get(f, "prompt"), *system = field_get(f, "system");
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        const json_t *value = field_get(f, never[i]);
        if (value && !(json_is_string(value) && !json_string_length(value)) &&
            !(json_is_array(value) && !json_array_size(value)))
            return problem_set(f->p, 400, never[i], "this server cannot do that");
    }
    (void)field_bool(f, "raw", &raw);
    if (prompt && !json_is_string(prompt)) return field_wrong(f, "prompt", "text");
    if (system && !json_is_string(system)) return field_wrong(f, "system", "text");
    if (f->p->status || !no_images(f->object, "", f->p)) return false;
    if (raw) {
        q->text = json_string_value(prompt);
        q->text_len = json_string_length(prompt);
        q->special = true;
        return true;
    }
    q->messages = json_array();
    if (json_string_length(system))
        json_array_append_new(q->messages, json_pack("{s:s, s:O}", "role", "system", "content", system));
    json_array_append_new(q->messages, json_pack("{s:s, s:O}", "role", "user", "content", prompt));
    q->prompt_field = "prompt";
    return true;
}

/* ---- writing ---- */

json_t *ollama_time(int64_t seconds)
{
    char when[40];
    const time_t t = (time_t)seconds;
    struct tm day;
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &day));
    return json_string(when);
}

static void put_problem(text *out, const problem *p)
{
    text_json(out, json_pack("{s:o}", "error", problem_message(p)));
}

static void line(answers *a, json_t *value)
{
    text t = {0};
    text_json(&t, value);
    text_puts(&t, "\n");
    if (!t.failed) exchange_put(a->x, t.data, t.n);
    text_deinit(&t);
}

static void broken(answers *a, const problem *p)
{
    text t = {0};
    put_problem(&t, p);
    text_puts(&t, "\n");
    if (!t.failed) exchange_put(a->x, t.data, t.n);
    text_deinit(&t);
}

static bool is_chat(const answers *a) { return a->d == &ollama_chat_dialect; }

/* What was said, thoughts and calls, in the form of the endpoint. */
static json_t *said(answers *a, const char *words, size_t n, const char *thoughts, size_t n_thoughts, json_t *calls)
{
    json_t *o = json_pack("{s:s, s:o, s:b}", "model", a->q.model, "created_at", ollama_time((int64_t)time(NULL)),
                          "done", false);
    json_t *to = is_chat(a) ? json_pack("{s:s}", "role", "assistant") : o;
    json_object_set_new(to, is_chat(a) ? "content" : "response", json_text(words, n));
    if (n_thoughts) json_object_set_new(to, "thinking", json_text(thoughts, n_thoughts));
    if (calls) json_object_set_new(to, "tool_calls", calls);
    if (is_chat(a)) json_object_set_new(o, "message", to);
    return o;
}

static json_t *call_json(const tool_call *call, int index)
{
    json_t *arguments =
        json_loadb(call->arguments.data ? call->arguments.data : "", call->arguments.n, JSON_ALLOW_NUL, NULL);
    return json_pack("{s:s, s:{s:i, s:s, s:o}}", "id", call->id, "function", "index", index, "name", call->name,
                     "arguments", arguments ? arguments : json_object());
}

static void add_logprobs(json_t *o, choice *c)
{
    if (!c->a->q.logprobs || !json_array_size(c->logprobs)) return;
    json_object_set_new(o, "logprobs", c->logprobs);
    c->logprobs = json_array();
}

static json_t *finished(json_t *o, choice *c)
{
    const qn_batch_usage *u = &c->used;
    const int64_t total = now_ns() - c->a->x->began_ns;
    add_logprobs(o, c);
    json_object_set_new(o, "done", json_true());
    json_object_set_new(o, "done_reason", json_string(c->finish == FINISH_length ? "length" : "stop"));
    json_object_update_new(o, json_pack("{s:I, s:I, s:i, s:I, s:i, s:I}", "total_duration", (json_int_t)total,
                                        "load_duration", (json_int_t)c->a->x->load_ns, "prompt_eval_count", u->n_prompt,
                                        "prompt_eval_duration", (json_int_t)u->read_ns, "eval_count", c->n_tokens,
                                        "eval_duration", (json_int_t)u->generate_ns));
    return o;
}

static void begin(answers *a) { (void)a; }

static void put_piece(answers *a, choice *c, const piece *p)
{
    json_t *o = NULL;
    if (p->kind == PIECE_content) o = said(a, p->text, p->len, NULL, 0, NULL);
    if (p->kind == PIECE_reasoning) o = said(a, "", 0, p->text, p->len, NULL);
    if (p->kind == PIECE_call_end)
        o = said(a, "", 0, NULL, 0, json_pack("[o]", call_json(&c->calls[p->call], p->call)));
    if (!o) return;
    if (p->kind == PIECE_content) add_logprobs(o, c);
    line(a, o);
}

static void end_choice(answers *a, choice *c) { (void)a, (void)c; }

static void end(answers *a)
{
    choice *c = &a->choices[0];
    if (a->q.stream) {
        line(a, finished(said(a, "", 0, NULL, 0, NULL), c));
        return;
    }
    json_t *calls = NULL; /* as in a stream without one that was cut */
    for (int i = 0; i < c->n_calls; i++) {
        if (c->calls[i].cut) continue;
        if (!calls) calls = json_array();
        json_array_append_new(calls, call_json(&c->calls[i], i));
    }
    exchange_reply_json(a->x, 200,
                        finished(said(a, c->content.data, c->content.n, c->reasoning.data, c->reasoning.n, calls), c));
}

#define DIALECT(name) \
    const dialect ollama_##name##_dialect = { \
        .stream_type = "application/x-ndjson", \
        .problem = put_problem, \
        .no_memory = "{\"error\":\"out of memory\"}", \
        .begin = begin, \
        .piece = put_piece, \
        .end_choice = end_choice, \
        .end = end, \
        .broken = broken, \
    };
DIALECT(chat)
DIALECT(generate)

/* ---- requests ---- */

/* Nothing asked: the model is loaded, which it is, or with a keep_alive of 0 unloaded. */
static void only_load(exchange *x, const ask *q, bool chat, bool unload)
{
    json_t *o = json_pack("{s:s, s:o, s:b, s:s}", "model", q->model, "created_at", ollama_time((int64_t)time(NULL)),
                          "done", true, "done_reason", unload ? "unload" : "load");
    if (chat)
        json_object_set_new(o, "message", json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
    else
        json_object_set_new(o, "response", json_string(""));
    exchange_reply_json(x, 200, o);
}

static void answer(exchange *x, bool chat)
{
    ask q;
    problem p = {0};
    int64_t keep_ns = KEEP_AS_IT_IS;
    ask_init(&q, x);
    q.body = exchange_parse(x, &p);
    const fields f = {q.body, "", &p};
    const json_t *given = q.body ? field_get(&f, chat ? "messages" : "prompt") : NULL;
    const bool empty = q.body && (!given || (json_is_array(given) && !json_array_size(given)) ||
                                  (json_is_string(given) && !json_string_length(given)));
    if (!p.status && ollama_keep_alive(&f, &keep_ns) && common(&q, &f, x) && empty) {
        ollama_keep(x, keep_ns, &p);
        only_load(x, &q, chat, keep_ns == 0);
        ask_deinit(&q);
        return;
    }
    if (!p.status) (void)(chat ? read_chat(&q, &f) : read_generate(&q, &f));
    ask_start(x, &q, &p);
    ollama_keep(x, keep_ns, &p);
}

void serve_ollama_chat(exchange *x) { answer(x, true); }
void serve_ollama_generate(exchange *x) { answer(x, false); }
