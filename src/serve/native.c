/* SPDX-License-Identifier: MIT */
/* src/serve/native.c -- llama-server's own endpoints that touch the text: /completion, /tokenize, /detokenize,
 * /apply-template. */
#include "serve/native.h"
#include "serve/openai.h"
#include "serve/prompts.h"
#include "serve/routes.h"
#include <stdlib.h>
#include <string.h>

/* ---- /completion ---- */

bool native_options(ask *q, exchange *x, const fields *f)
{
    int64_t n;
    const json_t *schema = field_get(f, "json_schema");
    static const char *const several[] = {"n_cmpl", "n"};
    if (!ask_limits(q, f)) return false;
    for (int i = 0; i < 2; i++)
        if (field_integer(f, several[i], 1, INT32_MAX, &n) && n > 1)
            return problem_set(f->p, 400, several[i], "one answer at a time; /v1/completions gives several");
    if (field_integer(f, "n_probs", 0, QN_BATCH_MAX_TOP, &n)) {
        q->logprobs = n > 0;
        q->n_top = (int)n;
    }
    (void)field_bool(f, "stream", &q->stream);
    (void)field_bool(f, "return_tokens", &q->return_ids);
    q->return_ids = q->return_ids || q->stream; /* as theirs */
    if (schema && !ask_schema(q, schema, "json_schema", f->p)) return false;
    return !f->p->status && ask_sampling(q, f) && ask_stops(q, f, "stop") && ask_bias(q, x->model, f) &&
           ask_extras(q, x, f) && ask_loras(q, x->model, f);
}

static bool read_ask(ask *q, exchange *x, problem *p)
{
    q->special = true; /* it is the whole prompt, not a user's part of one */
    q->body = exchange_parse(x, p);
    if (!q->body) return false;
    const fields f = {q->body, "", p};
    return native_options(q, x, &f) && prompts_read(q, x->model, &f, "prompt", MAX_ANSWERS);
}

void serve_completion(exchange *x)
{
    ask q;
    problem p = {0};
    ask_init(&q, x);
    (void)read_ask(&q, x, &p);
    if (!p.status && q.n_prompts > 1)
        problem_set(&p, 400, "prompt", "one prompt at a time; /v1/completions takes several");
    ask_start(x, &q, &p);
}

static double rate(int n, double ms) { return ms > 0 ? n * 1000 / ms : 0; }

json_t *native_timings(const choice *c)
{
    const qn_batch_usage *u = &c->used;
    const double prompt_ms = (double)u->read_ns * 1e-6, ms = (double)u->generate_ns * 1e-6;
    const int n_read = u->n_prompt - u->n_cached;
    return json_pack("{s:i, s:i, s:f, s:f, s:i, s:f, s:f}", "cache_n", u->n_cached, "prompt_n", n_read, "prompt_ms",
                     prompt_ms, "prompt_per_second", rate(n_read, prompt_ms), "predicted_n", c->n_tokens,
                     "predicted_ms", ms, "predicted_per_second", rate(c->n_tokens, ms));
}

json_t *native_progress(const choice *c)
{
    const qn_batch_usage *u = &c->used;
    const double ms = (double)(now_ns() - c->a->x->began_ns - u->queue_ns) * 1e-6;
    return json_pack("{s:i, s:i, s:i, s:I}", "total", u->n_prompt, "cache", u->n_cached, "processed", u->n_read,
                     "time_ms", (json_int_t)(ms > 0 ? ms : 0));
}

static json_t *part(choice *c, const char *data, size_t n, bool stop)
{
    json_t *o = json_pack("{s:i, s:o, s:b, s:i, s:i, s:i}", "index", c->index, "content", json_text(data, n), "stop",
                          stop, "id_slot", -1, "tokens_predicted", c->n_tokens, "tokens_evaluated", c->used.n_prompt);
    json_object_set_new(o, "tokens", c->ids ? c->ids : json_array());
    if (c->ids) c->ids = json_array();
    if (c->a->q.logprobs) {
        json_object_set_new(o, "completion_probabilities", c->logprobs);
        c->logprobs = json_array();
    }
    if (stop || c->a->q.timings) json_object_set_new(o, "timings", native_timings(c));
    return o;
}

static json_t *last_part(choice *c, const char *data, size_t n)
{
    json_t *o = part(c, data, n, true);
    const char *type = c->stop.hit ? "word" : c->finish == FINISH_length ? "limit" : "eos";
    json_object_set_new(o, "stop_type", json_string(type));
    json_object_set_new(o, "stopping_word", json_string(c->stop.hit ? c->a->q.stop[c->stop.which] : ""));
    json_object_set_new(o, "model", json_string(c->a->q.model));
    json_object_set_new(o, "tokens_cached", json_integer(c->used.n_cached));
    json_object_set_new(o, "truncated", json_boolean(choice_truncated(c)));
    return o;
}

static void begin(answers *a) { (void)a; }

static void put_piece(answers *a, choice *c, const piece *p)
{
    if (p->kind == PIECE_content) answers_event_out(a, NULL, part(c, p->text, p->len, false));
}

static void progress(answers *a, choice *c)
{
    if (!a->q.progress) return;
    json_t *o = part(c, "", 0, false);
    json_object_set_new(o, "prompt_progress", native_progress(c));
    answers_event_out(a, NULL, o);
}

static void end_choice(answers *a, choice *c) { (void)a, (void)c; }

static void end(answers *a)
{
    choice *c = &a->choices[0];
    if (a->q.stream)
        answers_event_out(a, NULL, last_part(c, "", 0));
    else
        exchange_reply_json(a->x, 200, last_part(c, c->content.data, c->content.n));
}

const dialect native_dialect = {
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

/* ---- text and tokens ---- */

static void put_piece_of(text *t, const model *m, qn_token id)
{
    char *data = NULL;
    size_t len = 0;
    const qn_detokenize_options o = {.show_special = true, .keep_prefix = true};
    if (qn_detokenize(m->tok, &id, 1, &o, &data, &len, NULL) != QN_OK) text_lost();
    json_t *value = json_stringn(data ? data : "", len);
    if (!value) { /* part of a character: its bytes */
        value = json_array();
        for (size_t k = 0; k < len; k++) json_array_append_new(value, json_integer((unsigned char)data[k]));
    }
    text_printf(t, "{\"id\":%d,\"piece\":", id);
    text_json(t, value);
    text_puts(t, "}");
    qn_free(data);
}

/* Where a token stands for the first time: of millions most have come before, and are copied. */
typedef struct place {
    size_t at, n;
} place;

static void put_piece_again(text *t, const model *m, qn_token id, place *known)
{
    const size_t at = t->n;
    if (known[id].n) {
        text_repeat(t, known[id].at, known[id].n);
        return;
    }
    put_piece_of(t, m, id);
    if (!t->failed) known[id] = (place){at, t->n - at};
}

/* As text at once: values of JSON would take 600 bytes for a byte that was given. What grows is counted. */
static void put_tokens(text *t, exchange *x, const qn_token *ids, size_t n, bool pieces, problem *p)
{
    enum { STEP = 1 << 20 };
    size_t counted = 0;
    bool fits = true;
    place *known = pieces ? calloc((size_t)qn_tokenizer_n_tokens(x->model->tok), sizeof *known) : NULL;
    if (pieces && !known) {
        text_lost();
        return;
    }
    text_puts(t, "{\"tokens\":[");
    for (size_t i = 0; i < n && !t->failed && fits; i++) {
        if (i) text_put(t, ",", 1);
        if (pieces)
            put_piece_again(t, x->model, ids[i], known);
        else
            text_printf(t, "%d", ids[i]);
        if (t->n <= counted) continue;
        fits = exchange_count(x, STEP, p);
        counted += STEP;
    }
    text_puts(t, "]}");
    free(known);
}

static void tokenize(exchange *x, const fields *f, text *out)
{
    bool special = false, parse = true, pieces = false;
    qn_token *ids = NULL;
    size_t n = 0;
    qn_error err;
    const json_t *content = field_get(f, "content");
    (void)field_bool(f, "add_special", &special);
    (void)field_bool(f, "parse_special", &parse);
    (void)field_bool(f, "with_pieces", &pieces);
    if (!f->p->status && !json_is_string(content)) field_wrong(f, "content", "text");
    if (f->p->status) return;
    const qn_tokenize_options o = {.no_bos = !special, .no_special = !parse};
    const qn_status status =
        qn_tokenize(x->model->tok, json_string_value(content), json_string_length(content), &o, &ids, &n, &err);
    if (status != QN_OK)
        problem_error(f->p, "content", &err);
    else
        put_tokens(out, x, ids, n, pieces, f->p);
    qn_free(ids);
}

void serve_tokenize(exchange *x)
{
    problem p = {0};
    text out = {0};
    json_t *body = exchange_parse(x, &p);
    if (body) tokenize(x, &(fields){body, "", &p}, &out);
    json_decref(body);
    if (!p.status) {
        exchange_reply(x, 200, &out);
        return;
    }
    text_deinit(&out);
    exchange_refuse(x, &p);
}

static json_t *detokenized(const exchange *x, const fields *f)
{
    size_t n = 0, len = 0;
    char *data = NULL;
    qn_error err;
    qn_token *ids = prompts_ids(x->model, f, "tokens", &n);
    if (!ids) return NULL;
    const qn_detokenize_options o = {.show_special = true};
    const qn_status status = qn_detokenize(x->model->tok, ids, n, &o, &data, &len, &err);
    free(ids);
    if (status != QN_OK) {
        problem_error(f->p, "tokens", &err);
        return NULL;
    }
    json_t *reply = json_pack("{s:o}", "content", json_text(data, len));
    qn_free(data);
    return reply;
}

static json_t *templated(const exchange *x, const fields *f)
{
    ask q;
    qn_prompt prompt = {0};
    json_t *reply = NULL;
    ask_init(&q, x);
    const json_t *messages = field_array(f, "messages");
    if (!messages && !f->p->status) field_wrong(f, "messages", "a list of messages");
    q.messages = json_incref((json_t *)messages);
    if (!f->p->status && openai_chat_shape(&q, f) && openai_tools(&q, f) && ask_prompt(&q, x->model, &prompt, f->p))
        reply = json_pack("{s:o}", "prompt", json_text(prompt.text, prompt.len));
    qn_prompt_deinit(&prompt);
    ask_deinit(&q);
    return reply;
}

static void reply_with(exchange *x, json_t *(*make)(const exchange *x, const fields *f))
{
    problem p = {0};
    json_t *body = exchange_parse(x, &p), *reply = NULL;
    const fields f = {body, "", &p};
    if (body) reply = make(x, &f);
    if (p.status)
        exchange_refuse(x, &p);
    else
        exchange_reply_json(x, 200, reply);
    json_decref(body);
}

void serve_detokenize(exchange *x) { reply_with(x, detokenized); }
void serve_apply_template(exchange *x) { reply_with(x, templated); }
