/* SPDX-License-Identifier: MIT */
/* src/text/chat/answer.c -- what was read of an answer: events as it comes, the message in the end. */
#include "text/chat/reader.h"

static void drop_call(qn_read_call *c)
{
    qn__free(c->name);
    qn__free(c->id);
    qn__str_deinit(&c->arguments);
    *c = (qn_read_call){0};
}

void qn__answer_deinit(qn_answer *a)
{
    qn__str_deinit(&a->content);
    qn__str_deinit(&a->reasoning);
    qn__str_deinit(&a->bytes);
    for (int i = 0; i < a->n_calls; i++) drop_call(&a->calls[i]);
    qn__free(a->calls);
    qn__free(a->events);
    qn__free(a->begins);
    *a = (qn_answer){0};
}

void qn__answer_clear_events(qn_answer *a)
{
    qn__str_clear(&a->bytes);
    a->n_events = 0;
}

static bool room(qn_answer *a)
{
    if (a->n_events < a->cap_events) return true;
    const size_t more = a->cap_events ? 2 * a->cap_events : 16;
    qn_chat_event *events = qn__realloc(a->events, more * sizeof *events);
    if (events) a->events = events;
    size_t *begins = events ? qn__realloc(a->begins, more * sizeof *begins) : NULL;
    if (begins) a->begins = begins;
    a->failed |= !begins;
    if (begins) a->cap_events = more;
    return begins;
}

/* A piece of the same thing as the last becomes part of its event. */
static void add(qn_answer *a, qn_chat_event_kind kind, int call, const char *text, size_t n)
{
    const bool pieces = kind == QN_CHAT_content || kind == QN_CHAT_reasoning || kind == QN_CHAT_arguments;
    qn_chat_event *last = a->n_events ? &a->events[a->n_events - 1] : NULL;
    if (!qn__str_append(&a->bytes, text, n)) {
        a->failed = true;
        return;
    }
    if (pieces && last && last->kind == kind && last->call == call) {
        last->len += n;
    } else if (room(a)) {
        a->begins[a->n_events] = a->bytes.len - n;
        a->events[a->n_events++] = (qn_chat_event){.kind = kind, .call = call, .len = n};
    }
}

bool qn__answer_events(qn_answer *a, const qn_chat_event **events, size_t *n)
{
    for (size_t i = 0; i < a->n_events; i++) a->events[i].text = a->bytes.data ? a->bytes.data + a->begins[i] : "";
    *events = a->events;
    *n = a->n_events;
    return !a->failed;
}

void qn__answer_text(qn_answer *a, qn_chat_event_kind kind, const char *text, size_t n)
{
    if (!n) return;
    a->failed |= !qn__str_append(kind == QN_CHAT_content ? &a->content : &a->reasoning, text, n);
    add(a, kind, 0, text, n);
}

static char *copy(qn_answer *a, const char *s, size_t n)
{
    char *p = qn__alloc(n + 1);
    a->failed |= !p;
    if (!p) return NULL;
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

void qn__answer_call(qn_answer *a, const char *name, size_t n)
{
    if (a->n_calls == a->cap_calls) {
        const int more = a->cap_calls ? 2 * a->cap_calls : 4;
        qn_read_call *p = qn__realloc(a->calls, (size_t)more * sizeof *p);
        a->failed |= !p;
        if (!p) return;
        a->calls = p;
        a->cap_calls = more;
    }
    a->calls[a->n_calls] = (qn_read_call){.name = copy(a, name, n)};
    add(a, QN_CHAT_call, a->n_calls++, name, n);
}

void qn__answer_id(qn_answer *a, const char *id, size_t n)
{
    if (!a->n_calls || !n) return;
    qn_read_call *c = &a->calls[a->n_calls - 1];
    qn__free(c->id);
    c->id = copy(a, id, n);
}

void qn__answer_arguments(qn_answer *a, const char *text, size_t n)
{
    if (!n || !a->n_calls) return;
    a->failed |= !qn__str_append(&a->calls[a->n_calls - 1].arguments, text, n);
    add(a, QN_CHAT_arguments, a->n_calls - 1, text, n);
}

void qn__answer_end_call(qn_answer *a, qn_chat_event_kind how)
{
    if (!a->n_calls) return;
    qn_read_call *c = &a->calls[a->n_calls - 1];
    c->whole = how == QN_CHAT_call_end;
    c->cut = how == QN_CHAT_call_cut;
    add(a, how, a->n_calls - 1, "", 0);
    if (how == QN_CHAT_no_call) drop_call(&a->calls[--a->n_calls]);
}

/* ---- the message ----------------------------------------------------------------------------------- */

static void put_string(qn_str *s, const char *text, size_t n)
{
    qn__str_putc(s, '"');
    for (size_t i = 0; i < n; i++) qn__put_escaped(s, (unsigned char)text[i]);
    qn__str_putc(s, '"');
}

static void put_call(qn_str *s, const qn_read_call *c, int i, uint64_t seed)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char id[10] = "";
    uint64_t hash = qn__hash(seed, &i, sizeof i);
    for (int k = 0; k < 9; k++, hash /= 36) id[k] = letters[hash % 36];
    const char *shown = c->id ? c->id : id;
    qn__str_puts(s, i ? ", {\"id\": " : "{\"id\": ");
    put_string(s, shown, strlen(shown));
    qn__str_puts(s, ", \"type\": \"function\", \"function\": {\"name\": ");
    put_string(s, c->name ? c->name : "", c->name ? strlen(c->name) : 0);
    qn__str_puts(s, ", \"arguments\": ");
    put_string(s, c->arguments.data ? c->arguments.data : "", c->arguments.len);
    qn__str_puts(s, c->cut ? "}, \"cut\": true}" : "}}");
}

qn_status qn_chat_reader_message(const qn_chat_reader *r, char **json, qn_error *err)
{
    const qn_answer *a = &r->answer;
    qn_str s = {0};
    if (r->failed) return QN_FAIL_NOMEM(err, 1);
    qn__str_puts(&s, "{\"role\": \"assistant\", \"content\": ");
    if (a->content.len)
        put_string(&s, a->content.data, a->content.len);
    else
        qn__str_puts(&s, "null");
    if (a->reasoning.len) {
        qn__str_puts(&s, ", \"reasoning_content\": ");
        put_string(&s, a->reasoning.data, a->reasoning.len);
    }
    for (int i = 0; i < a->n_calls; i++) {
        if (!i) qn__str_puts(&s, ", \"tool_calls\": [");
        put_call(&s, &a->calls[i], i, r->seed);
    }
    qn__str_puts(&s, a->n_calls ? "]}" : "}");
    const bool failed = s.failed;
    size_t len;
    char *text = failed ? NULL : qn__str_take(&s, &len);
    if (!text) {
        qn__str_deinit(&s);
        return QN_FAIL_NOMEM(err, a->content.len);
    }
    *json = text;
    return QN_OK;
}
