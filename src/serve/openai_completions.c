/* SPDX-License-Identifier: MIT */
/* src/serve/openai_completions.c -- POST /v1/completions: text goes on. */
#include "serve/native.h"
#include "serve/openai.h"
#include "serve/prompts.h"
#include "serve/routes.h"
#include <string.h>

/* ---- reading ---- */

static bool counts(ask *q, const fields *f)
{
    int64_t n;
    if (!ask_limits(q, f)) return false;
    if (field_integer(f, "n", 1, MAX_ANSWERS, &n)) q->n = (int)n;
    if (field_integer(f, "best_of", 1, MAX_ANSWERS, &n) && n != q->n)
        return problem_set(f->p, 400, "best_of", "this server answers n times; best_of must be the same");
    const json_t *logprobs = field_get(f, "logprobs");
    if (logprobs && json_is_boolean(logprobs)) {
        q->logprobs = json_is_true(logprobs);
    } else if (field_integer(f, "logprobs", 0, QN_BATCH_MAX_TOP, &n)) {
        q->logprobs = true;
        q->n_top = (int)n;
    }
    return f->p->status == 0;
}

static bool switches(ask *q, const fields *f)
{
    const json_t *options = field_object(f, "stream_options"), *schema = field_get(f, "json_schema"),
                 *format = field_get(f, "response_format");
    const fields of = {options, "stream_options", f->p};
    (void)field_bool(f, "stream", &q->stream);
    (void)field_bool(f, "echo", &q->echo);
    if (options) (void)field_bool(&of, "include_usage", &q->include_usage);
    if (q->echo && q->logprobs)
        return problem_set(f->p, 400, "echo", "probabilities are told of the answer, not of the prompt");
    if (schema && !ask_schema(q, schema, "json_schema", f->p)) return false;
    return (!format || openai_format(q, format, "response_format", f->p)) && f->p->status == 0;
}

/* With a suffix the answer is what belongs between the two, of models that have tokens for that. */
static bool read_prompt(ask *q, const model *m, const fields *f)
{
    const char *suffix = "";
    if (!field_string(f, "suffix", &suffix) || !*suffix)
        return f->p->status == 0 && prompts_read(q, m, f, "prompt", MAX_ANSWERS);
    if (!infill_can(m))
        return problem_set(f->p, 400, "suffix", "%s has no tokens for a prefix, a suffix and what lies between",
                           m->name);
    if (q->echo) return problem_set(f->p, 400, "echo", "with a suffix the prompt is no text that the answer goes on");
    if (!json_is_string(field_get(f, "prompt"))) return field_wrong(f, "prompt", "text, since there is a suffix");
    return infill_prompt(q, m, f);
}

static bool read_ask(ask *q, exchange *x, problem *p)
{
    q->special = true;
    q->body = exchange_parse(x, p);
    if (!q->body) return false;
    const fields f = {q->body, "", p};
    return counts(q, &f) && switches(q, &f) && ask_sampling(q, &f) && ask_stops(q, &f, "stop") &&
           ask_bias(q, x->model, &f) && ask_extras(q, x, &f) && ask_loras(q, x->model, &f) &&
           read_prompt(q, x->model, &f);
}

void serve_completions(exchange *x) { ask_serve(x, read_ask); }

/* ---- writing ---- */

/* {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, of what is new. */
static json_t *logprobs_json(choice *c)
{
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array(), *entry, *top;
    size_t i, k;
    if (!c->a->q.logprobs) {
        json_decref(tokens), json_decref(values), json_decref(tops), json_decref(offsets);
        return json_null();
    }
    json_array_foreach(c->logprobs, i, entry)
    {
        json_t *map = json_object();
        json_array_foreach(json_object_get(entry, "top_logprobs"), k, top)
            json_object_set(map, json_string_value(json_object_get(top, "token")), json_object_get(top, "logprob"));
        json_array_append(tokens, json_object_get(entry, "token"));
        json_array_append(values, json_object_get(entry, "logprob"));
        json_array_append_new(tops, map);
        json_array_append_new(offsets, json_integer((json_int_t)c->n_told));
        c->n_told += json_array_size(json_object_get(entry, "bytes"));
    }
    json_array_clear(c->logprobs);
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", values, "top_logprobs", tops,
                     "text_offset", offsets);
}

static json_t *choice_json(choice *c, json_t *part, const char *reason)
{
    return json_pack("{s:i, s:o, s:o, s:o}", "index", c->index, "text", part, "logprobs", logprobs_json(c),
                     "finish_reason", reason ? json_string(reason) : json_null());
}

static json_t *completion(answers *a, json_t *choices, json_t *usage)
{
    if (!a->id[0]) make_id(a->id, sizeof(a->id), "cmpl-");
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", a->id, "object", "text_completion", "created",
                  (json_int_t)a->created, "model", a->q.model, "system_fingerprint", qn_version(), "choices", choices);
    if (usage || a->q.include_usage) json_object_set_new(o, "usage", usage ? usage : json_null());
    return o;
}

/* A part of a stream: of one choice. */
static void put_part(answers *a, choice *c, json_t *words, const char *reason, json_t *more)
{
    json_t *o = completion(a, json_pack("[o]", choice_json(c, words, reason)), NULL);
    if (reason || a->q.timings) json_object_set_new(o, "timings", native_timings(c));
    if (more) json_object_set_new(o, "prompt_progress", more);
    answers_event_out(a, NULL, o);
}

/* What was asked, for echo. */
static json_t *asked(const choice *c, const text *more)
{
    const id_list *prompt = &c->a->q.prompts[c->index / c->a->q.n];
    text t = {0};
    char *data = NULL;
    size_t n = 0;
    if (c->a->q.echo && qn_detokenize(c->a->x->model->tok, prompt->ids, prompt->n, NULL, &data, &n, NULL) != QN_OK)
        text_lost();
    else
        text_put(&t, data, n);
    qn_free(data);
    if (more) text_put(&t, more->data ? more->data : "", more->n);
    json_t *value = json_text(t.data, t.n);
    text_deinit(&t);
    return value;
}

static void begin(answers *a)
{
    for (int i = 0; i < a->n && a->q.echo; i++) put_part(a, &a->choices[i], asked(&a->choices[i], NULL), NULL, NULL);
}

static void put_piece(answers *a, choice *c, const piece *p)
{
    if (p->kind == PIECE_content) put_part(a, c, json_text(p->text, p->len), NULL, NULL);
}

static void progress(answers *a, choice *c)
{
    if (a->q.progress) put_part(a, c, json_string(""), NULL, native_progress(c));
}

static void end_choice(answers *a, choice *c) { put_part(a, c, json_string(""), finish_openai(c->finish), NULL); }

static void end(answers *a)
{
    if (a->q.stream) {
        if (a->q.include_usage) answers_event_out(a, NULL, completion(a, json_array(), openai_usage(a)));
        openai_done(a);
        return;
    }
    json_t *choices = json_array();
    for (int i = 0; i < a->n; i++) {
        choice *c = &a->choices[i];
        json_array_append_new(choices, choice_json(c, asked(c, &c->content), finish_openai(c->finish)));
    }
    json_t *o = completion(a, choices, openai_usage(a));
    json_object_set_new(o, "timings", native_timings(&a->choices[0]));
    exchange_reply_json(a->x, 200, o);
}

const dialect openai_completions_dialect = {
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
