/* SPDX-License-Identifier: MIT */
/* src/serve/answers.c -- answers as they come: the executor leaves tokens, the pump makes pieces of them. */
#include "serve/answers.h"
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    SLOW_BYTES = 1 << 20, /* of a stream that its reader has not taken: it waits then */
    MOST_BYTES = 64 << 20 /* that an answer keeps, and a conversation may be gone on with: no context bounds it when the
                           * answer goes on behind a full one */
};

/* ---- life ---- */

static void choice_deinit(choice *c)
{
    qn_chat_reader_destroy(c->reader);
    stop_text_deinit(&c->stop);
    text_deinit(&c->content);
    text_deinit(&c->reasoning);
    text_deinit(&c->token_text);
    text_deinit(&c->said);
    for (int i = 0; i < c->n_calls; i++) {
        free(c->calls[i].name);
        text_deinit(&c->calls[i].arguments);
    }
    free(c->calls);
    free(c->events);
    free(c->tops);
    json_decref(c->logprobs);
    json_decref(c->waiting);
    json_decref(c->ids);
}

void answers_free(answers *a)
{
    if (!a) return;
    for (int i = 0; i < a->n; i++) choice_deinit(&a->choices[i]);
    free(a->choices);
    qn_grammar_destroy(a->grammar);
    qn_grammar_destroy(a->after);
    qn_free(a->closing);
    qn_prompt_deinit(&a->prompt);
    ask_deinit(&a->q);
    json_decref(a->own);
    text_deinit(&a->part);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* Under lock. */
static void cancel_all(answers *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->choices[i].submitted) qn_batcher_cancel(a->x->model->batcher, a->choices[i].id);
}

void answers_cancel(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    answers *a = x->answers;
    pthread_mutex_unlock(&x->lock);
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    if (!a->done) cancel_all(a);
    pthread_mutex_unlock(&a->lock);
}

bool answers_stop(answers *a)
{
    pthread_mutex_lock(&a->lock);
    const bool goes_on = !a->done;
    a->stopped = true;
    if (goes_on) cancel_all(a);
    pthread_mutex_unlock(&a->lock);
    return goes_on;
}

/* ---- the executor's side ---- */

static bool room(void **data, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return true;
    void *more = realloc(*data, need * 2 * size);
    if (!more) return false;
    *data = more;
    *cap = need * 2;
    return true;
}

/* Nothing comes behind one that was lost. */
static void leave_token(choice *c, const qn_batch_event *e)
{
    if (c->lost) return;
    void *events = c->events, *tops = c->tops;
    const bool good = room(&events, &c->cap_events, c->n_events + 1, sizeof(*c->events)) &&
                      room(&tops, &c->cap_tops, c->n_tops + (size_t)e->n_top + 1, sizeof(*c->tops));
    c->events = events;
    c->tops = tops ? tops : c->tops;
    if (!good) {
        c->lost = true;
        return;
    }
    c->events[c->n_events++] = (token_event){e->token, e->logprob, (int32_t)c->n_tops, e->n_top};
    for (int i = 0; i < e->n_top; i++) c->tops[c->n_tops++] = e->top[i];
}

static void note_times(choice *c, const qn_batch_event *e)
{
    model *m = c->a->x->model;
    const int64_t now = now_ns();
    if (c->token_ns) {
        histogram_add(&m->between, (double)(now - c->token_ns) * 1e-9);
    } else {
        histogram_add(&m->first_token, (double)(now - c->a->x->began_ns) * 1e-9);
        histogram_add(&m->queue, (double)e->usage.queue_ns * 1e-9);
    }
    c->token_ns = now;
}

void answers_event(void *ctx, const qn_batch_event *e)
{
    choice *c = ctx;
    server *s = c->a->x->server;
    pthread_mutex_lock(&s->events_lock);
    if (c->dropped && e->request == c->dropped) {
        pthread_mutex_unlock(&s->events_lock);
        if (e->kind == QN_BATCH_end) exchange_release(c->a->x);
        return;
    }
    if (e->kind == QN_BATCH_token) {
        note_times(c, e);
        leave_token(c, e);
    }
    if (e->kind == QN_BATCH_progress) c->progressed = true;
    if (e->kind == QN_BATCH_end) {
        c->over = true;
        c->end = e->end;
        if (e->error) c->error = *e->error;
    }
    c->usage = e->usage;
    const bool first = s->ready == NULL;
    if (!c->listed) {
        c->next_ready = s->ready;
        s->ready = c;
        c->listed = true;
    }
    pthread_mutex_unlock(&s->events_lock);
    if (first) pump_notify(s);
}

/* ---- pieces ---- */

/* Something of it found no memory. */
static bool is_short(choice *c)
{
    c->no_memory = c->no_memory || text_is_short();
    return c->no_memory;
}

static void give(choice *c, piece_kind kind, int call, const char *data, size_t n)
{
    answers *a = c->a;
    const piece p = {kind, call, data, n};
    if (a->q.stream || a->d->always) a->d->piece(a, c, &p);
}

static void give_content(choice *c)
{
    if (!c->stop.n_out) return;
    text_put(&c->content, c->stop.out, c->stop.n_out);
    give(c, PIECE_content, 0, c->stop.out, c->stop.n_out);
}

/* Probabilities are told of tokens that are content: of those at hand it shows when something comes of them. */
static void settle(choice *c, bool is_content)
{
    if (!c->waiting) return;
    if (is_content) json_array_extend(c->logprobs, c->waiting);
    json_array_clear(c->waiting);
}

static void content(choice *c, const char *data, size_t n)
{
    c->in_reasoning = c->in_call = false;
    settle(c, true);
    if (!stop_text_push(&c->stop, data, n) && !c->stop.hit) text_lost();
    give_content(c);
}

static void begin_call(choice *c, const char *name, size_t n)
{
    c->in_call = true;
    c->in_reasoning = false;
    settle(c, false);
    tool_call *more = realloc(c->calls, ((size_t)c->n_calls + 1) * sizeof(*more));
    char *copy = more ? strndup(name, n) : NULL;
    if (more) c->calls = more;
    if (!copy) {
        c->no_memory = true;
        return;
    }
    tool_call *call = &c->calls[c->n_calls++];
    *call = (tool_call){.name = copy};
    make_id(call->id, c->a->x->model->needs.short_ids ? 10 : sizeof(call->id),
            c->a->x->model->needs.short_ids ? "" : "call_");
    give(c, PIECE_call, c->n_calls - 1, name, n);
}

static void read_event(choice *c, const qn_chat_event *e)
{
    const int last = c->n_calls - 1;
    switch (e->kind) {
    case QN_CHAT_content: content(c, e->text, e->len); break;
    case QN_CHAT_reasoning:
        c->in_reasoning = true;
        settle(c, false);
        text_put(&c->reasoning, e->text, e->len);
        give(c, PIECE_reasoning, 0, e->text, e->len);
        break;
    case QN_CHAT_call: begin_call(c, e->text, e->len); break;
    case QN_CHAT_arguments:
        settle(c, false);
        if (last < 0 || !e->len) break;
        text_put(&c->calls[last].arguments, e->text, e->len);
        give(c, PIECE_arguments, last, e->text, e->len);
        break;
    case QN_CHAT_call_end:
        settle(c, false);
        if (last >= 0) give(c, PIECE_call_end, last, "", 0);
        c->in_call = false;
        break;
    case QN_CHAT_no_call: /* who streams has shown it already */
        c->in_call = false;
        if (last < 0 || c->a->q.stream) break;
        free(c->calls[last].name);
        text_deinit(&c->calls[last].arguments);
        c->n_calls--;
        break;
    case QN_CHAT_call_cut:
        settle(c, false);
        if (last >= 0) c->calls[last].cut = true;
        break;
    }
}

static void read_events(choice *c, const qn_chat_event *events, size_t n)
{
    for (size_t i = 0; i < n && !c->stop.hit && !is_short(c); i++) read_event(c, &events[i]);
}

/* ---- tokens ---- */

static void plain_token(choice *c, qn_token token)
{
    char buffer[256], *data = buffer;
    const qn_tokenizer *tok = c->a->x->model->tok;
    const size_t most = qn_tokenizer_max_piece(tok) + 8;
    if (most > sizeof(buffer) && !(data = malloc(most))) {
        c->no_memory = true;
        return;
    }
    const int64_t n = qn_detok_push(&c->detok, tok, token, data, most > sizeof(buffer) ? most : sizeof(buffer));
    if (n > 0) content(c, data, (size_t)n);
    if (data != buffer) free(data);
}

/* Marks, and blanks around them, that the reader keeps to itself. */
static bool is_mark(const choice *c, qn_token token)
{
    const qn_token_kind kind = qn_tokenizer_kind(c->a->x->model->tok, token);
    return c->in_reasoning || c->in_call || kind == QN_TOKEN_control || kind == QN_TOKEN_user;
}

void choice_push(choice *c, qn_token token)
{
    const qn_chat_event *events;
    size_t n;
    c->n_tokens++;
    if (c->ids) json_array_append_new(c->ids, json_integer(token));
    if (c->a->q.budget) text_put(&c->said, (const char *)&token, sizeof(token));
    if (!c->reader) {
        plain_token(c, token);
    } else if (qn_chat_reader_token(c->reader, token, &events, &n, NULL) == QN_OK) {
        read_events(c, events, n);
        if (n == 0 && is_mark(c, token)) settle(c, false);
    } else {
        c->no_memory = true;
    }
    c->n_reasoning += c->in_reasoning;
}

static void take_token(choice *c, const token_event *e, const qn_batch_logprob *tops)
{
    choice_note_logprob(c, e, tops);
    choice_push(c, e->token);
}

/* ---- ends ---- */

static void fail(answers *a, const problem *p)
{
    if (a->failed) return;
    a->failed = true;
    a->problem = *p;
    cancel_all(a);
    (void)text_was_short();
    if (a->q.stream) a->d->broken(a, p);
    if (a->q.stream)
        exchange_end_stream(a->x, text_was_short());
    else
        exchange_refuse(a->x, p);
}

static void fail_for_memory(answers *a)
{
    const problem p = {.status = 503, .text = "out of memory"};
    fail(a, &p);
}

static void end_choice(choice *c, finish how)
{
    if (c->ended) return;
    c->ended = true;
    c->finish = how == FINISH_stop && c->n_calls && !c->stop.hit ? FINISH_calls : how;
    if (c->a->q.stream || c->a->d->always) c->a->d->end_choice(c->a, c);
}

/* The model's part is over, or, cut, nothing more of it is wanted: what was held back comes out. */
static void flush(choice *c, bool cut)
{
    const qn_chat_event *events;
    char rest[16];
    size_t n;
    if (c->reader && cut && qn_chat_reader_begins_call(c->reader)) {
        settle(c, false); /* marks are nothing to show */
    } else if (c->reader) {
        if (qn_chat_reader_finish(c->reader, cut, &events, &n, NULL) == QN_OK)
            read_events(c, events, n);
        else
            c->no_memory = true;
    } else {
        const int64_t k = qn_detok_finish(&c->detok, rest, sizeof(rest));
        if (k > 0) content(c, rest, (size_t)k);
    }
    if (c->stop.hit) return;
    settle(c, !c->reader); /* what it kept to itself is no content */
    stop_text_finish(&c->stop);
    give_content(c);
}

static void over(choice *c)
{
    answers *a = c->a;
    problem p = {0};
    if (c->end == QN_BATCH_END_error) {
        problem_error(&p, "", &c->error);
        fail(a, &p);
    } else if (c->end == QN_BATCH_END_cancelled && !c->ended && a->stopped) {
        flush(c, true);
        end_choice(c, FINISH_cancelled);
    } else if (c->end == QN_BATCH_END_cancelled && !c->ended) {
        problem_set(&p, 503, "", "the server is stopping");
        fail(a, &p);
    } else if (!c->ended) {
        flush(c, c->end != QN_BATCH_END_stop);
        const bool stops = c->stop.hit || (c->end == QN_BATCH_END_stop && !a->q.only_reads);
        end_choice(c, stops ? FINISH_stop : FINISH_length);
    }
}

static void all_over(answers *a)
{
    a->done = true;
    if (a->failed || exchange_is_gone(a->x)) return;
    a->d->end(a);
    if (text_was_short())
        fail_for_memory(a);
    else if (a->q.stream)
        exchange_end_stream(a->x, false);
}

/* What the executor left, taken. */
typedef struct batch_of_events {
    token_event *events;
    qn_batch_logprob *tops;
    size_t n;
    bool over, progressed, lost;
    int holds; /* of the exchange, let go with this */
} batch_of_events;

static batch_of_events take(choice *c)
{
    server *s = c->a->x->server;
    pthread_mutex_lock(&s->events_lock);
    const batch_of_events b = {c->events, c->tops, c->n_events, c->over, c->progressed, c->lost, c->over};
    c->events = NULL;
    c->tops = NULL;
    c->n_events = c->cap_events = c->n_tops = c->cap_tops = 0;
    c->progressed = c->listed = c->lost = false;
    c->used = c->forced ? thoughts_usage(c) : c->usage;
    pthread_mutex_unlock(&s->events_lock);
    return b;
}

static bool is_too_large(const choice *c)
{
    const size_t ids = c->ids || c->a->q.budget ? (size_t)c->n_tokens * 32 : 0;
    return c->content.n + c->reasoning.n + c->logprob_bytes + ids > MOST_BYTES;
}

static void take_in(choice *c, batch_of_events *b)
{
    answers *a = c->a;
    if (a->failed || exchange_is_gone(a->x)) return;
    for (size_t i = 0; i < b->n && !c->ended && !a->q.only_reads; i++) {
        take_token(c, &b->events[i], b->tops);
        if (is_short(c)) break;
        if (thoughts_over(c)) {
            b->n = i + 1; /* what the executor wrote since does not count */
            b->holds += thoughts_end(c, &b->over);
        }
        const bool large = is_too_large(c) && !c->stop.hit;
        if (!c->stop.hit && !large) continue;
        if (large) flush(c, true);
        end_choice(c, large ? FINISH_length : FINISH_stop);
        qn_batcher_cancel(a->x->model->batcher, c->id);
    }
    const bool gap = is_short(c) || (b->lost && !c->ended); /* nothing comes behind it */
    if (!gap && b->progressed && !b->n && !c->n_tokens && a->q.stream && a->d->progress) a->d->progress(a, c);
    if (!gap && b->over) over(c);
    if (gap || is_short(c)) fail_for_memory(a);
}

void answers_pace(answers *a)
{
    pthread_mutex_lock(&a->lock);
    const size_t n = a->q.stream ? exchange_backlog(a->x) : 0;
    const bool pause = n > SLOW_BYTES || (a->paused && n > SLOW_BYTES / 4);
    for (int i = 0; i < a->n && pause != a->paused; i++)
        if (a->choices[i].submitted) qn_batcher_pause(a->x->model->batcher, a->choices[i].id, pause);
    a->paused = pause;
    pthread_mutex_unlock(&a->lock);
}

void choice_pump(choice *c)
{
    answers *a = c->a;
    exchange *x = exchange_hold(a->x); /* the request that held it may be dropped in here */
    pthread_mutex_lock(&a->lock);
    (void)text_was_short();
    batch_of_events b = take(c);
    take_in(c, &b);
    free(b.events);
    free(b.tops);
    if (b.over && --a->n_left == 0) all_over(a);
    const bool streams = a->q.stream;
    pthread_mutex_unlock(&a->lock);
    if (streams) {
        answers_pace(a);
        exchange_wake(x);
    }
    while (b.holds--) exchange_release(x);
    exchange_release(x);
}

/* ---- the log ---- */

bool choice_truncated(const choice *c) { return c->used.n_left_out > 0 || c->end == QN_BATCH_END_context; }

void answers_tell(answers *a, text *out)
{
    pthread_mutex_lock(&a->lock);
    const qn_batch_usage *u = &a->choices[0].used;
    int n = 0, n_cached = 0, n_set_back = 0, n_left_out = 0;
    for (int i = 0; i < a->n; i++) {
        n += a->choices[i].n_tokens;
        n_cached += a->choices[i].used.n_cached;
        n_set_back += a->choices[i].used.n_set_back;
        n_left_out += a->choices[i].used.n_left_out;
    }
    text_printf(out, ", %zu tokens (%d cached), %d written", a->n_prompt, n_cached, n);
    if (a->n > 1) text_printf(out, " in %d answers", a->n);
    if (n_set_back) text_printf(out, ", set back %d times", n_set_back);
    if (n_left_out) text_printf(out, ", %d left out", n_left_out);
    text_printf(out, ", waited %.0f ms, read %.0f ms, wrote %.0f ms, %s", (double)u->queue_ns * 1e-6,
                (double)u->read_ns * 1e-6, (double)u->generate_ns * 1e-6,
                a->failed                               ? "failed"
                : !a->choices[0].ended                  ? "left"
                : a->choices[0].finish == FINISH_length ? "length"
                                                        : "stop");
    pthread_mutex_unlock(&a->lock);
}

void answers_log(answers *a)
{
    const server *s = a->x->server;
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->n && s->o.log; i++) {
        const choice *c = &a->choices[i];
        text line = {0};
        text_printf(&line, "%llu wrote ", (unsigned long long)a->x->id);
        json_t *said = json_pack("{s:o, s:o}", "reasoning", json_text(c->reasoning.data, c->reasoning.n), "content",
                                 json_text(c->content.data, c->content.n));
        for (int k = 0; k < c->n_calls; k++)
            json_object_set_new(said, c->calls[k].id,
                                json_pack("{s:s, s:o}", "call", c->calls[k].name, "arguments",
                                          json_text(c->calls[k].arguments.data, c->calls[k].arguments.n)));
        text_json(&line, said);
        if (!line.failed) s->o.log(line.data);
        text_deinit(&line);
    }
    pthread_mutex_unlock(&a->lock);
}

/* ---- what dialects write with ---- */

void make_id(char *out, size_t size, const char *prefix)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char random[24] = {0};
    size_t n = strlen(prefix);
    (void)!getrandom(random, sizeof(random), 0);
    memcpy(out, prefix, n);
    for (size_t i = 0; i < sizeof(random) && n + 1 < size; i++) out[n++] = letters[random[i] % 62];
    out[n] = '\0';
}

void answers_event_out(answers *a, const char *name, json_t *value)
{
    text t = {0};
    if (name) text_printf(&t, "event: %s\n", name);
    text_puts(&t, "data: ");
    text_json(&t, value);
    text_puts(&t, "\n\n");
    if (!t.failed) exchange_put(a->x, t.data, t.n); /* who called is told by text_was_short */
    text_deinit(&t);
}

/* Bytes of a whole sequence at p, 0 where there is none. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    const size_t len = *p < 0x80                 ? 1
                       : *p >= 0xc2 && *p < 0xe0 ? 2
                       : (*p & 0xf0) == 0xe0     ? 3
                       : *p >= 0xf0 && *p < 0xf5 ? 4
                                                 : 0;
    if (!len || len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    const bool wrong = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
                       (*p == 0xf4 && p[1] > 0x8f);
    return wrong ? 0 : len;
}

json_t *json_text(const char *data, size_t n)
{
    json_t *value = json_stringn(data ? data : "", n);
    if (value) return value;
    text t = {0};
    for (size_t i = 0; i < n;) {
        const size_t len = utf8_length((const unsigned char *)data + i, n - i);
        text_put(&t, len ? data + i : "\xef\xbf\xbd", len ? len : 3);
        i += len ? len : 1;
    }
    value = t.failed ? NULL : json_stringn(t.data, t.n);
    text_deinit(&t);
    return value;
}

const char *finish_openai(finish f)
{
    return f == FINISH_calls ? "tool_calls" : f == FINISH_length ? "length" : "stop";
}
