/* SPDX-License-Identifier: MIT */
/* src/serve/anthropic_write.c -- answers in Anthropic's form: blocks of thinking, text and tool_use, one after another;
 * in a stream each has a start, deltas and a stop. */
#include "serve/anthropic.h"
#include <string.h>

/* ---- problems ---- */

static json_t *problem_json(const problem *p)
{
    return json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type", problem_anthropic_type(p->status),
                     "message", problem_message(p));
}

static void put_problem(text *out, const problem *p) { text_json(out, problem_json(p)); }

static void broken(answers *a, const problem *p) { answers_event_out(a, "error", problem_json(p)); }

/* ---- parts ---- */

/* Tokens that were read, apart from those that were in the cache. */
static json_t *usage(const choice *c)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "input_tokens", c->used.n_prompt - c->used.n_cached,
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", c->used.n_cached, "output_tokens",
                     c->n_tokens);
}

static json_t *message(answers *a, json_t *content, const choice *c)
{
    if (!a->id[0]) make_id(a->id, sizeof(a->id), "msg_");
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:o}", "id", a->id, "type", "message", "role", "assistant",
                     "model", a->q.model, "content", content, "stop_reason", "stop_sequence", "usage", usage(c));
}

static const char *reason(const choice *c)
{
    if (c->stop.hit) return "stop_sequence";
    return c->finish == FINISH_calls ? "tool_use" : c->finish == FINISH_length ? "max_tokens" : "end_turn";
}

static json_t *which_stop(const choice *c)
{
    return c->stop.hit ? json_string(c->a->q.stop[c->stop.which]) : json_null();
}

/* Clients give thoughts back with it; we believe them without. */
static json_t *signature(void)
{
    char sign[48];
    make_id(sign, sizeof(sign), "");
    return json_string(sign);
}

/* ---- streams: answers.phase is the kind of block that is open, one above its piece_kind, and index its number ---- */

static void start(answers *a, const choice *c)
{
    if (a->started) return;
    a->started = true;
    answers_event_out(a, "message_start",
                      json_pack("{s:s, s:o}", "type", "message_start", "message", message(a, json_array(), c)));
}

static void delta(answers *a, json_t *d)
{
    answers_event_out(a, "content_block_delta",
                      json_pack("{s:s, s:i, s:o}", "type", "content_block_delta", "index", a->index, "delta", d));
}

static void close_block(answers *a)
{
    if (!a->phase) return;
    if (a->phase == PIECE_reasoning + 1)
        delta(a, json_pack("{s:s, s:o}", "type", "signature_delta", "signature", signature()));
    answers_event_out(a, "content_block_stop",
                      json_pack("{s:s, s:i}", "type", "content_block_stop", "index", a->index));
    a->phase = 0;
    a->index++;
}

static void open_block(answers *a, piece_kind kind, json_t *block)
{
    close_block(a);
    a->phase = (int)kind + 1;
    answers_event_out(a, "content_block_start",
                      json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index", a->index, "content_block",
                                block));
}

static void begin(answers *a) { (void)a; } /* what was found in the cache is not known yet */

static void progress(answers *a, choice *c)
{
    start(a, c);
    answers_event_out(a, "ping", json_pack("{s:s}", "type", "ping"));
}

static void put_piece(answers *a, choice *c, const piece *p)
{
    const bool same = a->phase == (int)p->kind + 1;
    start(a, c);
    switch (p->kind) {
    case PIECE_content:
        if (!same) open_block(a, p->kind, json_pack("{s:s, s:s}", "type", "text", "text", ""));
        delta(a, json_pack("{s:s, s:o}", "type", "text_delta", "text", json_text(p->text, p->len)));
        break;
    case PIECE_reasoning:
        if (!same)
            open_block(a, p->kind, json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""));
        delta(a, json_pack("{s:s, s:o}", "type", "thinking_delta", "thinking", json_text(p->text, p->len)));
        break;
    case PIECE_call:
        open_block(a, p->kind,
                   json_pack("{s:s, s:s, s:o, s:{}}", "type", "tool_use", "id", c->calls[p->call].id, "name",
                             json_text(p->text, p->len), "input"));
        break;
    case PIECE_arguments:
        delta(a, json_pack("{s:s, s:o}", "type", "input_json_delta", "partial_json", json_text(p->text, p->len)));
        break;
    case PIECE_call_end: close_block(a); break;
    }
}

static void end_choice(answers *a, choice *c)
{
    start(a, c);
    close_block(a);
}

/* ---- whole ---- */

static json_t *input_of(const tool_call *call)
{
    json_t *input =
        json_loadb(call->arguments.data ? call->arguments.data : "", call->arguments.n, JSON_ALLOW_NUL, NULL);
    return input ? input : json_object(); /* one that was cut */
}

static json_t *blocks(const choice *c)
{
    json_t *list = json_array();
    if (c->reasoning.n)
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "type", "thinking", "thinking",
                                              json_text(c->reasoning.data, c->reasoning.n), "signature", signature()));
    if (c->content.n)
        json_array_append_new(list, json_pack("{s:s, s:o}", "type", "text", "text",
                                              json_text(c->content.data, c->content.n)));
    for (int i = 0; i < c->n_calls; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "type", "tool_use", "id", c->calls[i].id, "name",
                                              c->calls[i].name, "input", input_of(&c->calls[i])));
    return list;
}

static void end(answers *a)
{
    choice *c = &a->choices[0];
    if (a->q.stream) {
        answers_event_out(a, "message_delta",
                          json_pack("{s:s, s:{s:s, s:o}, s:o}", "type", "message_delta", "delta", "stop_reason",
                                    reason(c), "stop_sequence", which_stop(c), "usage", usage(c)));
        answers_event_out(a, "message_stop", json_pack("{s:s}", "type", "message_stop"));
        return;
    }
    json_t *m = message(a, blocks(c), c);
    json_object_set_new(m, "stop_reason", json_string(reason(c)));
    json_object_set_new(m, "stop_sequence", which_stop(c));
    exchange_reply_json(a->x, 200, m);
}

const dialect anthropic_dialect = {
    .stream_type = "text/event-stream",
    .pings = true,
    .problem = put_problem,
    .no_memory = "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"out of memory\"}}",
    .begin = begin,
    .piece = put_piece,
    .end_choice = end_choice,
    .end = end,
    .broken = broken,
    .progress = progress,
};
