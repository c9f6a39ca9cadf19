/* SPDX-License-Identifier: MIT */
/* src/serve/thoughts.c -- a budget for thoughts. When an answer has as many tokens of them, what the executor has
 * written since is dropped, the mark that ends thoughts is put behind them, and the answer goes on as a request whose
 * prompt is all that; the cache has nearly all of it. So the same request gets the same answer, however far the
 * executor was. */
#include "serve/answers.h"
#include <string.h>

/* Without white space at its ends. */
static qn_gguf_str trimmed(qn_gguf_str s)
{
    while (s.len && strchr(" \t\r\n", s.data[s.len - 1])) s.len--;
    while (s.len && strchr(" \t\r\n", *s.data)) s.data++, s.len--;
    return s;
}

/* Whether a text ends with the mark, as the prompts of models do that are made to think. */
static bool ends_with(qn_gguf_str s, qn_gguf_str mark)
{
    s = trimmed(s);
    mark = trimmed(mark);
    return mark.len && s.len >= mark.len && memcmp(s.data + s.len - mark.len, mark.data, mark.len) == 0;
}

/* The grammar of what comes behind thoughts that were ended. */
static bool grammar_behind(answers *a, qn_gguf_str open, qn_gguf_str close, problem *p)
{
    text t = {0};
    const bool within = ends_with((qn_gguf_str){a->prompt.text, a->prompt.len}, open);
    text_put(&t, a->prompt.text, a->prompt.len);
    if (!within) text_put(&t, open.data, open.len);
    text_puts(&t, ".");
    text_put(&t, close.data, close.len);
    const qn_prompt behind = {t.data, t.n, a->prompt.plain, a->prompt.n_plain};
    const bool good = t.failed ? problem_set(p, 503, "", "out of memory")
                               : ask_grammar(&a->q, a->x->model, &behind, true, &a->after, p);
    text_deinit(&t);
    return good;
}

bool thoughts_prepare(answers *a, problem *p)
{
    const model *m = a->x->model;
    qn_gguf_str open, close;
    qn_error err;
    const qn_tokenize_options o = {.no_bos = true};
    if (!a->q.budget) return true;
    if (!a->q.messages || a->q.gbnf || !qn_chat_template_thoughts(m->tmpl, &open, &close)) {
        exchange_ignores(a->x, "the budget of thoughts");
        a->q.budget = 0;
        return true;
    }
    if (qn_tokenize(m->tok, close.data, close.len, &o, &a->closing, &a->n_closing, &err) != QN_OK)
        return problem_error(p, "", &err);
    return !a->grammar || grammar_behind(a, open, close, p);
}

bool thoughts_over(const choice *c)
{
    return c->a->q.budget && !c->forced && c->in_reasoning && c->n_reasoning >= c->a->q.budget;
}

/* Nobody is to look at it again: no request of its own holds the exchange any more. */
static void unlist(choice *c)
{
    server *s = c->a->x->server;
    pthread_mutex_lock(&s->events_lock);
    choice **at = &s->ready;
    while (*at && *at != c) at = &(*at)->next_ready;
    if (*at) *at = c->next_ready;
    c->listed = false;
    pthread_mutex_unlock(&s->events_lock);
}

int thoughts_end(choice *c, bool *over)
{
    answers *a = c->a;
    server *s = a->x->server;
    problem p = {0};
    int holds = 0;
    c->forced = true;
    pthread_mutex_lock(&s->events_lock);
    if (!*over && c->over)
        holds = 1; /* its end has come since: nobody else will see it */
    else if (!*over)
        c->dropped = c->id;
    *over = c->over = false;
    c->n_events = c->n_tops = 0;
    c->base = c->used;
    c->usage = (qn_batch_usage){0};
    pthread_mutex_unlock(&s->events_lock);
    qn_batcher_cancel(a->x->model->batcher, c->id);
    for (size_t i = 0; i < a->n_closing; i++) choice_push(c, a->closing[i]);
    const bool full = a->q.max_tokens && c->n_tokens >= a->q.max_tokens;
    a->n_left--; /* it counts as another one */
    if (!full && ask_submit(a, c, &p)) return holds;
    a->n_left++;
    unlist(c); /* what came since is of the request that was dropped */
    *over = true;
    c->end = full || p.status == 400 ? QN_BATCH_END_length : QN_BATCH_END_error;
    snprintf(c->error.text, sizeof(c->error.text), "%.200s", p.text);
    c->error.status = QN_STATUS_nomem;
    return holds;
}

qn_batch_usage thoughts_usage(const choice *c)
{
    qn_batch_usage u = c->usage;
    u.generate_ns += u.queue_ns + u.read_ns + c->base.generate_ns;
    u.queue_ns = c->base.queue_ns;
    u.read_ns = c->base.read_ns;
    u.n_prompt = c->base.n_prompt;
    u.n_read = c->base.n_read;
    u.n_cached = c->base.n_cached;
    u.n_set_back += c->base.n_set_back;
    if (u.n_left_out < c->base.n_left_out) u.n_left_out = c->base.n_left_out; /* it has those of the first part, too */
    u.n_generated = c->n_tokens;
    return u;
}
