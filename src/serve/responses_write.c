/* SPDX-License-Identifier: MIT */
/* src/serve/responses_write.c -- answers as OpenAI's Responses: items one after another, each with events of its own. A
 * whole reply goes the same way, with the events left out, so that its items are those of the stream. */
#include "serve/openai.h"
#include "serve/responses.h"
#include <string.h>

/* answers.own: {"items": [those that are over], "item": the open one}; answers.phase: the kind of the open item, one
 * above its piece_kind; answers.index: its number; answers.part: its text so far. */

static void event(answers *a, const char *type, json_t *o)
{
    if (a->q.stream) {
        json_object_set_new(o, "type", json_string(type));
        json_object_set_new(o, "sequence_number", json_integer(a->n_events++));
        answers_event_out(a, type, o);
    } else {
        json_decref(o);
    }
}

/* ---- the response ---- */

static json_t *usage(const answers *a)
{
    const choice *c = &a->choices[0];
    return json_pack("{s:i, s:{s:i, s:i}, s:i, s:{s:i}, s:i}", "input_tokens", c->used.n_prompt, "input_tokens_details",
                     "cached_tokens", c->used.n_cached, "cache_write_tokens", 0, "output_tokens", c->n_tokens,
                     "output_tokens_details", "reasoning_tokens", c->n_reasoning, "total_tokens",
                     c->used.n_prompt + c->n_tokens);
}

static json_t *response(answers *a, const char *status, json_t *error)
{
    const bool over = strcmp(status, "in_progress") != 0, cut = strcmp(status, "incomplete") == 0;
    json_t *o = json_copy(json_object_get(a->q.own, "request"));
    if (!a->id[0]) {
        make_id(a->id, sizeof(a->id), "resp_");
        pthread_mutex_lock(&a->x->lock);
        memcpy(a->x->response_id, a->id, sizeof(a->id));
        pthread_mutex_unlock(&a->x->lock);
    }
    json_object_update_new(o, json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:s, s:O, s:o}", "id", a->id, "object",
                                        "response", "created_at", (json_int_t)a->created, "status", status, "error",
                                        error ? error : json_null(), "incomplete_details",
                                        cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null(), "model",
                                        a->q.model, "output", json_object_get(a->own, "items"), "usage",
                                        over ? usage(a) : json_null()));
    return o;
}

/* ---- items ---- */

static json_t *ids_of(const answers *a, bool content)
{
    json_t *o = json_pack("{s:O, s:i}", "item_id", json_object_get(json_object_get(a->own, "item"), "id"),
                          "output_index", a->index);
    if (content) json_object_set_new(o, "content_index", json_integer(0));
    return o;
}

static json_t *with(json_t *o, const char *name, json_t *value)
{
    json_object_set_new(o, name, value);
    return o;
}

static json_t *part_json(const answers *a, bool reasoning)
{
    if (reasoning) return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", json_text(a->part.data, a->part.n));
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", json_text(a->part.data, a->part.n),
                     "annotations", "logprobs", json_copy(json_object_get(a->own, "logprobs")));
}

static void close_text(answers *a, json_t *item, bool reasoning)
{
    json_object_set_new(item, "content", json_pack("[o]", part_json(a, reasoning)));
    json_t *done = with(ids_of(a, true), "text", json_text(a->part.data, a->part.n));
    if (!reasoning) json_object_set(done, "logprobs", json_object_get(a->own, "logprobs"));
    event(a, reasoning ? "response.reasoning_text.done" : "response.output_text.done", done);
    event(a, "response.content_part.done", with(ids_of(a, true), "part", part_json(a, reasoning)));
}

static void close_call(answers *a, json_t *item)
{
    const bool custom = json_object_get(item, "input") != NULL;
    if (!custom) {
        json_object_set_new(item, "arguments", json_text(a->part.data, a->part.n));
        json_t *done = with(ids_of(a, false), "arguments", json_text(a->part.data, a->part.n));
        event(a, "response.function_call_arguments.done",
              with(done, "name", json_incref(json_object_get(item, "name"))));
        return;
    }
    /* its one argument is the text, which can be told when it is whole */
    json_t *arguments = json_loadb(a->part.data ? a->part.data : "", a->part.n, JSON_ALLOW_NUL, NULL);
    json_t *input = json_object_get(arguments, "input");
    json_object_set_new(item, "input", input ? json_incref(input) : json_string(""));
    json_decref(arguments);
    event(a, "response.custom_tool_call_input.delta",
          with(ids_of(a, false), "delta", json_incref(json_object_get(item, "input"))));
    event(a, "response.custom_tool_call_input.done",
          with(ids_of(a, false), "input", json_incref(json_object_get(item, "input"))));
}

static void close_item(answers *a, const char *status)
{
    json_t *item = json_object_get(a->own, "item");
    if (!a->phase) return;
    if (a->phase == PIECE_call + 1)
        close_call(a, item);
    else
        close_text(a, item, a->phase == PIECE_reasoning + 1);
    json_object_set_new(item, "status", json_string(status));
    event(a, "response.output_item.done", json_pack("{s:i, s:O}", "output_index", a->index, "item", item));
    json_array_append(json_object_get(a->own, "items"), item);
    text_clear(&a->part);
    json_array_clear(json_object_get(a->own, "logprobs"));
    a->phase = 0;
    a->index++;
}

static void open_item(answers *a, piece_kind kind, json_t *item)
{
    char id[40];
    const bool reasoning = kind == PIECE_reasoning;
    close_item(a, "completed");
    make_id(id, sizeof(id), reasoning ? "rs_" : kind == PIECE_call ? "fc_" : "msg_");
    json_object_set_new(item, "id", json_string(id));
    json_object_set_new(item, "status", json_string("in_progress"));
    json_object_set_new(a->own, "item", item);
    a->phase = (int)kind + 1;
    event(a, "response.output_item.added",
          json_pack("{s:i, s:o}", "output_index", a->index, "item", json_deep_copy(item)));
    if (kind != PIECE_call)
        event(a, "response.content_part.added", with(ids_of(a, true), "part", part_json(a, reasoning)));
}

static void put_words(answers *a, choice *c, const piece *p)
{
    const bool reasoning = p->kind == PIECE_reasoning;
    if (a->phase != (int)p->kind + 1)
        open_item(a, p->kind,
                  reasoning ? json_pack("{s:s, s:[], s:[]}", "type", "reasoning", "summary", "content")
                            : json_pack("{s:s, s:s, s:[]}", "type", "message", "role", "assistant", "content"));
    text_put(&a->part, p->text, p->len);
    json_t *o = with(ids_of(a, true), "delta", json_text(p->text, p->len));
    if (!reasoning) {
        json_t *probabilities = c->logprobs ? json_copy(c->logprobs) : json_array();
        if (c->logprobs) json_array_clear(c->logprobs);
        json_array_extend(json_object_get(a->own, "logprobs"), probabilities);
        json_object_set_new(o, "logprobs", probabilities);
    }
    event(a, reasoning ? "response.reasoning_text.delta" : "response.output_text.delta", o);
}

static void put_piece(answers *a, choice *c, const piece *p)
{
    json_t *custom = json_object_get(a->q.own, "custom");
    switch (p->kind) {
    case PIECE_content:
    case PIECE_reasoning: put_words(a, c, p); break;
    case PIECE_call: {
        const bool is_custom = json_object_get(custom, c->calls[p->call].name) != NULL;
        open_item(a, p->kind,
                  json_pack("{s:s, s:s, s:o, s:s}", "type", is_custom ? "custom_tool_call" : "function_call", "call_id",
                            c->calls[p->call].id, "name", json_text(p->text, p->len), is_custom ? "input" : "arguments",
                            ""));
        break;
    }
    case PIECE_arguments:
        text_put(&a->part, p->text, p->len);
        if (!json_object_get(json_object_get(a->own, "item"), "input"))
            event(a, "response.function_call_arguments.delta",
                  with(ids_of(a, false), "delta", json_text(p->text, p->len)));
        break;
    case PIECE_call_end: close_item(a, "completed"); break;
    }
}

/* ---- the whole ---- */

static void begin(answers *a)
{
    a->own = json_pack("{s:[], s:[]}", "items", "logprobs");
    event(a, "response.created", json_pack("{s:o}", "response", response(a, "in_progress", NULL)));
    event(a, "response.in_progress", json_pack("{s:o}", "response", response(a, "in_progress", NULL)));
}

static void end_choice(answers *a, choice *c)
{
    close_item(a, c->finish == FINISH_length || c->finish == FINISH_cancelled ? "incomplete" : "completed");
}

/* The conversation with this answer, for previous_response_id. */
static void keep(answers *a, const choice *c, json_t *o)
{
    json_t *history = json_incref(json_object_get(a->q.own, "history")), *calls = json_array();
    if (json_is_false(json_object_get(json_object_get(a->q.own, "request"), "store"))) {
        json_decref(history), json_decref(calls);
        return;
    }
    json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content", json_text(c->content.data, c->content.n));
    if (c->reasoning.n) json_object_set_new(m, "reasoning_content", json_text(c->reasoning.data, c->reasoning.n));
    for (int i = 0; i < c->n_calls; i++)
        if (!c->calls[i].cut) json_array_append_new(calls, openai_call(&c->calls[i]));
    if (json_array_size(calls)) json_object_set(m, "tool_calls", calls);
    json_decref(calls);
    json_array_append_new(history, m);
    if (text_is_short()) { /* it may lack a part, and who goes on from it would not know */
        json_decref(history);
        return;
    }
    responses_keep(a->x->server, a->x->key, a->id, json_incref(o), history);
}

static void end(answers *a)
{
    choice *c = &a->choices[0];
    const char *status = c->finish == FINISH_cancelled ? "cancelled"
                         : c->finish == FINISH_length  ? "incomplete"
                                                       : "completed";
    json_t *o = response(a, status, NULL);
    keep(a, c, o);
    if (!a->q.stream)
        exchange_reply_json(a->x, 200, o);
    else
        event(a,
              c->finish == FINISH_length || c->finish == FINISH_cancelled ? "response.incomplete"
                                                                          : "response.completed",
              json_pack("{s:o}", "response", o));
}

static void broken(answers *a, const problem *p)
{
    json_t *error = json_pack("{s:s, s:o}", "code", *p->code ? p->code : "server_error", "message",
                              json_text(p->text, strlen(p->text)));
    event(a, "response.failed", json_pack("{s:o}", "response", response(a, "failed", error)));
}

const dialect responses_dialect = {
    .stream_type = "text/event-stream",
    .pings = true,
    .always = true,
    .problem = openai_problem,
    .no_memory = OPENAI_NO_MEMORY,
    .begin = begin,
    .piece = put_piece,
    .end_choice = end_choice,
    .end = end,
    .broken = broken,
};
