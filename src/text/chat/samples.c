/* SPDX-License-Identifier: MIT */
/* src/text/chat/samples.c -- conversations to learn from: the text that a model reads, and which bytes of it the
 * assistant says.
 *
 * A template that marks them with {% generation %} is believed. With every other one the conversation is rendered up to
 * each of the assistant's turns, once with the prompt for that turn and once with the turn: what the second has beyond
 * the first is what is said. Templates that show earlier turns in another form than the last (without their reasoning)
 * give a sample for every turn that is not a beginning of the next. */
#include "text/chat/syntax.h"

typedef struct job {
    const qn_chat_template *t;
    const char *text; /* the conversation */
    size_t len;
    const qn_chat_options *options;
    qn_error *err;
    qn_chat_sample *samples;
    size_t n, cap;
} job;

/* ---- rendering a part of it ---- */

typedef struct view {
    qn_heap heap;
    qn_val text; /* a string where heap.status is QN_OK */
} view;

static qn_val parse(qn_heap *h, const job *j)
{
    const qn_val v = qn__parse_json(h, j->text, j->len, false);
    if (h->status != QN_OK) return v;
    if (v.type != QN_VAL_dict) return QN_RAISE(h, "found %s, expected an object with messages", qn__type_name(v));
    const qn_val messages = qn__member(v, "messages");
    if (messages.type != QN_VAL_list) return QN_RAISE(h, "messages: a list is expected");
    return v;
}

/* The first n messages; with the beginning of the assistant's next turn where `prompt`. Deinit the heap in any case. */
static void render(const job *j, uint32_t n, bool prompt, qn_jinja_spans *generated, view *out)
{
    qn_heap *h = &out->heap;
    qn__jinja_heap_init(h, &(qn_jinja_options){0}, j->err);
    const qn_val line = parse(h, j);
    if (h->status != QN_OK) return;
    const qn_val messages = qn__member(line, "messages"), tools = qn__member(line, "tools"),
                 kwargs = qn__member(line, "chat_template_kwargs");
    if (messages.l->n > n) messages.l->n = n;
    qn_chat_options o = *j->options;
    o.no_generation_prompt = !prompt;
    o.continue_final_message = false;
    const qn_val list = qn__chat_messages(h, &j->t->needs, messages);
    const qn_val shown = qn__given(tools) ? qn__chat_tools(h, &j->t->needs, tools) : qn__none();
    out->text = qn__chat_run_with(j->t, h, list, shown, &o, kwargs, generated);
}

/* ---- samples ---- */

static qn_status no_room(job *j, size_t bytes) { return QN_FAIL_NOMEM(j->err, bytes); }

static qn_status add_span(job *j, qn_chat_sample *s, size_t begin, size_t end)
{
    qn_span *more = qn__realloc(s->said, (s->n_said + 1) * sizeof *more);
    if (!more) return no_room(j, (s->n_said + 1) * sizeof *more);
    s->said = more;
    s->said[s->n_said++] = (qn_span){begin, end};
    return QN_OK;
}

/* The sample that the text goes on with, or a new one. */
static qn_status place(job *j, const qn_vstr *text, qn_chat_sample **out)
{
    qn_chat_sample *last = j->n ? &j->samples[j->n - 1] : NULL;
    const bool goes_on =
        last && last->prompt.len <= text->n && memcmp(last->prompt.text, text->data, last->prompt.len) == 0;
    if (!goes_on) {
        qn_chat_sample *more = qn__realloc(j->samples, (j->n + 1) * sizeof *more);
        if (!more) return no_room(j, (j->n + 1) * sizeof *more);
        j->samples = more;
        last = &more[j->n++];
        *last = (qn_chat_sample){0};
    }
    qn_prompt p;
    QN_TRY(qn__chat_take(text, &p, j->err));
    qn_prompt_deinit(&last->prompt);
    last->prompt = p;
    *out = last;
    return QN_OK;
}

/* Characters are not cut: a common beginning may end inside of one. */
static size_t common(const qn_vstr *a, const qn_vstr *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->data[n] == b->data[n]) n++;
    while (n && n < b->n && ((unsigned char)b->data[n] & 0xc0) == 0x80) n--;
    return n;
}

/* Where the turn begins in the text that ends with it. No prompt can be rendered for a turn that is the first of all:
 * it begins with the first byte that is the conversation's. */
static qn_status begin_of(const job *j, uint32_t i, const qn_vstr *text, size_t *out)
{
    view before;
    if (i == 0) {
        for (*out = 0; *out < text->n && text->trust == QN_TRUST_mixed && text->map[*out];) ++*out;
        return QN_OK;
    }
    render(j, i, true, NULL, &before);
    if (before.heap.status == QN_OK) *out = common(before.text.s, text);
    qn__jinja_heap_deinit(&before.heap);
    return before.heap.status;
}

static qn_status add_turn(job *j, uint32_t i)
{
    view after;
    qn_chat_sample *s;
    size_t begin = 0;
    render(j, i + 1, false, NULL, &after);
    qn_status status = after.heap.status;
    if (status == QN_OK) status = begin_of(j, i, after.text.s, &begin);
    if (status == QN_OK) {
        const size_t end = after.text.s->n;
        if (begin == end) status = QN_FAIL(j->err, invalid, "messages[%u]: the template shows nothing of it", i);
        if (status == QN_OK) status = place(j, after.text.s, &s);
        if (status == QN_OK) status = add_span(j, s, begin, end);
    }
    qn__jinja_heap_deinit(&after.heap);
    return status;
}

/* What the template's own blocks say; `learnt` [n_turns] is false for turns that only stand there. */
static qn_status add_generated(job *j, uint32_t n, const bool *learnt, uint32_t n_turns, bool *found)
{
    view all;
    qn_chat_sample *s;
    qn_jinja_spans spans = {0};
    render(j, n, false, &spans, &all);
    qn_status status = all.heap.status;
    *found = status == QN_OK && spans.n == n_turns && !spans.hidden;
    if (*found) status = place(j, all.text.s, &s);
    for (uint32_t i = 0; *found && status == QN_OK && i < spans.n; i++)
        if (learnt[i] && spans.item[i].end > spans.item[i].begin)
            status = add_span(j, s, spans.item[i].begin, spans.item[i].end);
    qn__jinja_heap_deinit(&all.heap);
    return status;
}

/* ---- the assistant's turns ---- */

typedef struct turns {
    uint32_t n_messages, n;
    uint32_t *at; /* [n] */
    bool *learnt; /* [n] */
    bool any;
} turns;

/* OpenAI's weight: 0 is not learnt, 1 is. */
static bool weight_of(qn_heap *h, qn_val message, uint32_t i)
{
    const qn_val w = qn__member(message, "weight");
    if (!qn__given(w)) return true;
    if (!qn__is_number(w) || (qn__real(w) != 0 && qn__real(w) != 1)) {
        QN_RAISE(h, "messages[%u].weight: 0 or 1 is expected", i);
        return false;
    }
    return qn__real(w) != 0;
}

static void find_turns(qn_heap *h, const job *j, turns *out)
{
    const qn_val line = parse(h, j);
    if (h->status != QN_OK) return;
    const qn_vlist *l = qn__member(line, "messages").l;
    const qn_val tools = qn__member(line, "tools");
    if (tools.type == QN_VAL_list && tools.l->n && !j->t->needs.tools)
        QN_RAISE(h, "tools: the template does not show them");
    out->n_messages = l->n;
    out->at = qn__heap_alloc(h, (l->n + 1) * sizeof *out->at);
    out->learnt = qn__heap_alloc(h, (l->n + 1) * sizeof *out->learnt);
    for (uint32_t i = 0; h->status == QN_OK && i < l->n; i++) {
        if (!qn__str_is(qn__member(l->items[i], "role"), "assistant")) continue;
        if (qn__given(qn__member(l->items[i], "tool_calls")) && !j->t->needs.calls)
            QN_RAISE(h, "messages[%u].tool_calls: the template does not show calls", i);
        out->learnt[out->n] = weight_of(h, l->items[i], i);
        out->any |= out->learnt[out->n];
        out->at[out->n++] = i;
    }
}

static qn_status add_turns(job *j, const turns *all)
{
    bool found = false;
    if (!all->any) return QN_FAIL(j->err, invalid, "messages: no turn of the assistant's to learn from");
    if (strstr(j->t->source, "endgeneration")) QN_TRY(add_generated(j, all->n_messages, all->learnt, all->n, &found));
    for (uint32_t i = 0; i < all->n && !found; i++)
        if (all->learnt[i]) QN_TRY(add_turn(j, all->at[i]));
    return QN_OK;
}

qn_status qn_chat_samples_create(const qn_chat_template *t, const char *conversation, size_t len,
                                 const qn_chat_options *options, qn_chat_sample **out, size_t *n, qn_error *err)
{
    static const qn_chat_options defaults;
    job j = {.t = t, .text = conversation, .len = len, .options = options ? options : &defaults, .err = err};
    qn_heap h;
    turns all = {0};
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, err);
    find_turns(&h, &j, &all);
    const qn_status status = h.status == QN_OK ? add_turns(&j, &all) : h.status;
    qn__jinja_heap_deinit(&h);
    if (status != QN_OK) {
        qn_chat_samples_destroy(j.samples, j.n);
        return status;
    }
    *out = j.samples;
    *n = j.n;
    return QN_OK;
}

void qn_chat_samples_destroy(qn_chat_sample *samples, size_t n)
{
    for (size_t i = 0; samples && i < n; i++) {
        qn_prompt_deinit(&samples[i].prompt);
        qn__free(samples[i].said);
    }
    qn__free(samples);
}
