/* SPDX-License-Identifier: MIT */
/* src/serve/server.c -- a server's life. */
#include "serve/exchange.h"
#include "serve/answers.h"
#include "serve/responses.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 5000 };

static void defaults(server *s, const serve_options *o)
{
    s->o = *o;
    if (!s->o.host) s->o.host = "127.0.0.1";
    if (!s->o.max_body) s->o.max_body = 32 << 20;
    if (!s->o.timeout_s) s->o.timeout_s = 600;
    if (!s->o.request_timeout_s) s->o.request_timeout_s = 60;
    if (!s->o.path) s->o.path = s->o.model;
    if (o->sampler) s->sampler = *o->sampler;
    const char *slash = strrchr(s->o.path, '/');
    snprintf(s->file_name, sizeof(s->file_name), "%s", slash ? slash + 1 : s->o.path);
    s->tok = qn_engine_tokenizer(s->engine);
    qn_engine_get_info(s->engine, &s->info);
    qn_chat_template_needs(s->o.tmpl, &s->needs);
    s->started_s = (int64_t)time(NULL);
}

qn_status serve_start(qn_engine *engine, qn_batcher *batcher, const serve_options *options, server **out, qn_error *err)
{
    qn_error own = {.status = QN_STATUS_nomem, .text = "out of memory"};
    server *s = calloc(1, sizeof(*s));
    if (!s) {
        if (err) *err = own;
        return QN_STATUS_nomem;
    }
    s->engine = engine;
    s->batcher = batcher;
    s->epoll = s->wake = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->events_lock, NULL);
    pthread_mutex_init(&s->responses_lock, NULL);
    pthread_cond_init(&s->job_came, NULL);
    defaults(s, options);
    if (pump_start(s, &own) && work_start(s, &own) && http_start(s, &own)) {
        *out = s;
        return QN_OK;
    }
    if (err) *err = own;
    serve_stop(s);
    return own.status;
}

int32_t server_n_ctx(const server *s) { return s->batcher ? qn_batcher_n_ctx(s->batcher) : s->info.n_ctx_train; }

int serve_port(const server *s) { return s->port; }

/* All of them by id, oldest last, without holding the lock while one is looked at. */
static bool each(server *s, void (*fn)(exchange *x))
{
    uint64_t last = UINT64_MAX;
    bool any = false;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        exchange *x = s->exchanges;
        while (x && x->id >= last) x = x->next;
        if (x) exchange_hold(x);
        pthread_mutex_unlock(&s->lock);
        if (!x) return any;
        any = true;
        last = x->id;
        fn(x);
        exchange_release(x);
    }
}

static void leave(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->gone = true;
    pthread_mutex_unlock(&x->lock);
    answers_cancel(x);
    exchange_wake(x);
}

static bool wait_for_none(server *s, int ms)
{
    for (; ms > 0; ms -= 5) {
        pthread_mutex_lock(&s->lock);
        const bool none = !s->exchanges;
        pthread_mutex_unlock(&s->lock);
        if (none) return true;
        usleep(5000);
    }
    return false;
}

void serve_stop(server *s)
{
    if (!s) return;
    atomic_store(&s->draining, true);
    if (s->daemon && s->o.grace_ms) (void)wait_for_none(s, s->o.grace_ms);
    work_stop(s);
    (void)each(s, answers_cancel); /* streams end as their dialect says it */
    if (s->daemon && !wait_for_none(s, GRACE_MS)) {
        (void)each(s, leave);
        (void)wait_for_none(s, GRACE_MS);
    }
    http_stop(s);
    pump_stop(s);
    qn_session_destroy(s->embedder);
    pthread_cond_destroy(&s->job_came);
    pthread_mutex_destroy(&s->events_lock);
    pthread_mutex_destroy(&s->responses_lock);
    responses_deinit(s);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
