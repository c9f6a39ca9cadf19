/* SPDX-License-Identifier: MIT */
/* src/cli/chat_answer.c -- an answer as it comes: tokens drawn, taken apart by the reader, shown, and kept as a
 * message.
 */
#include "cli/chat.h"
#include "serve/stop.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer {
    chat *c;
    chat_ids ids;
    qn_chat_reader *reader;
    qn_sampler *sampler;
    qn_grammar *grammar; /* of this answer alone; NULL without one */
    qn_matcher *matcher; /* NULL where nothing is held */
    stop_text stop;
    char *content; /* all of it that was shown, for when a stop string ends it */
    size_t n_content, content_cap;
    enum { IN_nothing, IN_reasoning, IN_content, IN_call } in;
    bool said; /* something came */
    int64_t start_ns, first_ns;
} answer;

/* ---- showing ---- */

/* Whether reasoning, content and calls are told apart by more than colours. */
static void begin(answer *a, int part)
{
    chat_screen *s = &a->c->screen;
    if ((int)a->in == part || !s->terminal) {
        a->in = part;
        return;
    }
    if (a->in == IN_reasoning) {
        chat_screen_end_line(s);
        if (!s->colours) chat_screen_say(s, CHAT_dim, "(end of thoughts)");
        if (part == IN_content) chat_screen_text(s, CHAT_plain, "\n", 1);
    } else {
        chat_screen_end_line(s);
    }
    if (part == IN_reasoning && !s->colours) chat_screen_say(s, CHAT_dim, "(thoughts)");
    a->in = part;
}

static bool keep_content(answer *a, const char *text, size_t n)
{
    if (a->n_content + n + 1 > a->content_cap) {
        const size_t cap = (a->n_content + n + 1) * 2;
        char *more = realloc(a->content, cap);
        if (!more) return false;
        a->content = more;
        a->content_cap = cap;
    }
    memcpy(a->content + a->n_content, text, n);
    a->content[a->n_content += n] = '\0';
    return true;
}

/* What stop strings let through. */
static bool put_content(answer *a)
{
    const char *text = a->stop.out;
    size_t n = a->stop.n_out;
    if (!keep_content(a, text, n)) return false;
    /* blank lines before the answer are only looks */
    if (a->c->screen.terminal && a->in != IN_content)
        while (n && (*text == '\n' || *text == ' ')) text++, n--;
    if (n == 0) return true;
    begin(a, IN_content);
    chat_screen_text(&a->c->screen, CHAT_plain, text, n);
    return true;
}

static bool show(answer *a, const qn_chat_event *e)
{
    chat_screen *s = &a->c->screen;
    a->said = a->said || e->len > 0;
    switch (e->kind) {
    case QN_CHAT_content: (void)stop_text_push(&a->stop, e->text, e->len); return put_content(a);
    case QN_CHAT_reasoning:
        if (!s->terminal) return true;
        begin(a, IN_reasoning);
        chat_screen_text(s, CHAT_dim, e->text, e->len);
        return true;
    case QN_CHAT_call:
        if (!s->terminal) return true;
        begin(a, IN_nothing);
        begin(a, IN_call);
        chat_screen_text(s, CHAT_accent, "-> ", 3);
        chat_screen_text(s, CHAT_accent, e->text, e->len);
        chat_screen_text(s, CHAT_plain, " ", 1);
        return true;
    case QN_CHAT_arguments:
        if (s->terminal) chat_screen_text(s, CHAT_plain, e->text, e->len);
        return true;
    case QN_CHAT_call_end:
        if (s->terminal) chat_screen_end_line(s);
        return true;
    case QN_CHAT_no_call: chat_screen_say(s, CHAT_alert, "(that was no call)"); return true;
    case QN_CHAT_call_cut: chat_screen_say(s, CHAT_alert, "the call was cut off"); return true;
    }
    return true;
}

static int show_all(answer *a, const qn_chat_event *events, size_t n)
{
    for (size_t i = 0; i < n && !a->stop.hit; i++)
        if (!show(a, &events[i])) return cli_no_memory("out of memory");
    return chat_screen_flush(&a->c->screen);
}

/* ---- generating ---- */

int chat_hold(chat *c, const qn_prompt *prompt, qn_grammar **out)
{
    qn_chat_needs needs;
    qn_error err;
    *out = NULL;
    if (c->matcher || (!c->tools && !c->schema)) return CLI_OK;
    qn_chat_template_needs(c->tmpl, &needs);
    const qn_chat_constraint wanted = {
        .tools = c->tools,
        .tool_choice = c->has_results ? NULL : c->o.tool_choice,
        .single_call = !needs.several_calls,
        .response_schema = c->schema,
        .no_reasoning = c->o.think && strcmp(c->o.think, "off") == 0 && needs.thinking_switch,
    };
    if (qn_chat_grammar_create(c->tmpl, c->tok, prompt, &wanted, out, &err) != QN_OK) return cli_fail_error(&err);
    for (int32_t i = 0; *out && !c->told_widened && i < qn_grammar_n_widened(*out); i++)
        cli_note("--tools: %s; any value is taken there", qn_grammar_widened(*out, i));
    c->told_widened = true;
    return CLI_OK;
}

static int set_up(answer *a)
{
    chat *c = a->c;
    cli_sampling sampling = c->o.gen.sampling;
    qn_error err;
    if (sampling.seed) sampling.seed += c->n_answers; /* else /regenerate would say the same again */
    c->n_answers++;
    int status = cli_create_sampler(&sampling, c->tok, qn_session_n_ctx(c->session), &a->sampler);
    if (status != CLI_OK) return status;
    for (size_t i = 0; i < a->ids.n; i++) qn_sampler_accept(a->sampler, a->ids.ids[i]);
    a->matcher = c->matcher;
    if (a->matcher) qn_matcher_reset(a->matcher);
    if ((status = chat_hold(c, &a->ids.prompt, &a->grammar)) != CLI_OK) return status;
    if (a->grammar && qn_matcher_create(a->grammar, c->tok, &a->matcher, &err) != QN_OK) return cli_fail_error(&err);
    if (!stop_text_init(&a->stop, c->o.stop.item, c->o.stop.n)) return cli_no_memory("out of memory");
    return qn_chat_reader_create(c->tmpl, c->tok, c->tools, &a->ids.prompt, &a->reader, &err) == QN_OK
               ? CLI_OK
               : cli_fail_error(&err);
}

/* The next token; QN_TOKEN_NONE where the answer is over. */
static int draw(answer *a, qn_token *out)
{
    chat *c = a->c;
    qn_error err;
    const uint32_t *mask = NULL;
    *out = QN_TOKEN_NONE;
    if (a->matcher && qn_matcher_must_end(a->matcher)) return CLI_OK;
    if (a->matcher && qn_matcher_mask(a->matcher, &mask, &err) != QN_OK) return cli_fail_error(&err);
    qn_token id;
    if (qn_sampler_sample_masked(a->sampler, qn_session_logits(c->session, -1), mask, &id, &err) != QN_OK)
        return cli_fail_error(&err);
    if (qn_tokenizer_is_eog(c->tok, id) && !c->o.gen.sampling.ignore_eos) return CLI_OK;
    if (a->matcher && qn_matcher_accept(a->matcher, id, &err) != QN_OK) return cli_fail_error(&err);
    qn_sampler_accept(a->sampler, id);
    *out = id;
    return chat_ids_add(&a->ids, id);
}

static int generate(answer *a, chat_end *end)
{
    chat *c = a->c;
    const qn_chat_event *events;
    size_t n_events, reused;
    qn_error err;
    *end = CHAT_END_limit;
    for (int32_t n = 0; c->o.n_predict < 0 || n < c->o.n_predict; n++) {
        qn_token id;
        bool shift;
        if (cli_interrupted()) {
            *end = CHAT_END_stopped;
            return CLI_OK;
        }
        int status = draw(a, &id);
        if (status != CLI_OK) return status;
        if (n == 0) a->first_ns = cli_now_ns();
        if (id == QN_TOKEN_NONE) {
            *end = CHAT_END_done;
            return CLI_OK;
        }
        c->stats.n_answer++;
        if (qn_chat_reader_token(a->reader, id, &events, &n_events, &err) != QN_OK) return cli_fail_error(&err);
        if ((status = show_all(a, events, n_events)) != CLI_OK) return status;
        if (a->stop.hit) {
            *end = CHAT_END_done;
            return CLI_OK;
        }
        if (c->o.n_predict >= 0 && n + 1 == c->o.n_predict) return CLI_OK; /* nobody will ask for what follows it */
        if (a->ids.n < (size_t)qn_session_n_ctx(c->session)) {
            if (qn_session_feed(c->session, 0, &id, 1, &err) != QN_OK) return cli_fail_error(&err);
            continue;
        }
        if (chat_ids_fit(c, &a->ids, &shift) != CLI_OK) {
            *end = CHAT_END_full;
            return CLI_OK;
        }
        status = chat_ids_compute(c, &a->ids, shift, &reused);
        if (status != CLI_OK && status != CLI_INTERRUPTED) return status;
    }
    return CLI_OK;
}

/* ---- the message ---- */

/* Calls that were cut don't belong to the conversation: nobody can answer them. */
static int drop_cut_calls(json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls");
    for (size_t i = json_array_size(calls); i-- > 0;)
        if (json_is_true(json_object_get(json_array_get(calls, i), "cut"))) json_array_remove(calls, i);
    if (calls && json_array_size(calls) == 0) json_object_del(message, "tool_calls");
    return (int)json_array_size(json_object_get(message, "tool_calls"));
}

static int add_message(answer *a, int *n_calls)
{
    char *text = NULL;
    qn_error err;
    if (qn_chat_reader_message(a->reader, &text, &err) != QN_OK) return cli_fail_error(&err);
    json_t *message = json_loads(text, JSON_ALLOW_NUL, NULL);
    qn_free(text);
    if (message && a->stop.hit) json_object_set_new(message, "content", json_string(a->content ? a->content : ""));
    *n_calls = message ? drop_cut_calls(message) : 0;
    text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    json_decref(message);
    if (!text) return cli_no_memory("out of memory");
    const qn_status status = qn_messages_add_json(a->c->messages, text, &err);
    free(text);
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}

static int finish(answer *a, chat_end end, int *n_calls)
{
    const qn_chat_event *events;
    size_t n;
    qn_error err;
    if (qn_chat_reader_finish(a->reader, end != CHAT_END_done, &events, &n, &err) != QN_OK) return cli_fail_error(&err);
    int status = show_all(a, events, n);
    if (status == CLI_OK && !a->stop.hit) {
        stop_text_finish(&a->stop);
        if (!put_content(a)) status = cli_no_memory("out of memory");
    }
    if (a->c->screen.terminal || a->n_content) chat_screen_end_line(&a->c->screen);
    if (status == CLI_OK && (a->said || end == CHAT_END_done)) status = add_message(a, n_calls);
    return status == CLI_OK ? chat_screen_flush(&a->c->screen) : status;
}

/* Where an answer that did not end by itself stops short of what was asked for, said on a line behind it. */
static int say_cut(answer *a, chat_end end)
{
    const cli_grammar *g = &a->c->o.gen.grammar;
    if (end == CHAT_END_full) chat_say_full(a->c, &a->ids);
    if (end == CHAT_END_done || end == CHAT_END_stopped || !a->matcher || (!g->schema && !g->schema_file) ||
        qn_matcher_may_end(a->matcher))
        return CLI_OK;
    if (end == CHAT_END_limit)
        chat_screen_say(&a->c->screen, CHAT_alert,
                        "the answer was cut after %zu tokens, before it is what the schema asks for; -n asks for more",
                        a->c->stats.n_answer);
    return CLI_FAILED;
}

int chat_answer(chat *c, chat_end *end, int *n_calls)
{
    answer a = {.c = c};
    bool shift;
    *n_calls = 0;
    *end = CHAT_END_stopped;
    c->stats = (chat_stats){0};
    a.start_ns = a.first_ns = cli_now_ns();
    int status = chat_ids_render(c, c->first, &a.ids);
    if (status == CLI_OK) status = chat_ids_fit(c, &a.ids, &shift);
    if (status == CLI_OK) {
        c->stats.n_prompt = a.ids.n;
        status = chat_ids_compute(c, &a.ids, shift, &c->stats.n_reused);
        c->stats.n_computed = (size_t)qn_session_seq_len(c->session, 0) - c->stats.n_reused;
        c->stats.prompt_seconds = (double)(cli_now_ns() - a.start_ns) * 1e-9;
    }
    if (status == CLI_OK) status = set_up(&a);
    if (status == CLI_OK) {
        status = generate(&a, end);
        /* what was said before something failed is part of the conversation, too */
        const int finished = status == CLI_OK || (a.said && !ferror(stdout)) ? finish(&a, *end, n_calls) : CLI_OK;
        if (status == CLI_OK) status = finished;
        if (status == CLI_OK) status = say_cut(&a, *end);
    }
    c->stats.first_seconds = (double)(a.first_ns - a.start_ns) * 1e-9;
    c->stats.answer_seconds = (double)(cli_now_ns() - a.first_ns) * 1e-9;
    qn_chat_reader_destroy(a.reader);
    qn_sampler_destroy(a.sampler);
    if (a.grammar) qn_matcher_destroy(a.matcher);
    qn_grammar_destroy(a.grammar);
    stop_text_deinit(&a.stop);
    chat_ids_deinit(&a.ids);
    free(a.content);
    return status == CLI_INTERRUPTED ? CLI_OK : status;
}
