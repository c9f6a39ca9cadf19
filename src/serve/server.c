/* SPDX-License-Identifier: MIT */
/* src/serve/server.c -- a server's life. */
#include "serve/exchange.h"
#include "serve/answers.h"
#include "serve/responses.h"
#include "serve/tls.h"
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
    s->started_s = (int64_t)time(NULL);
}

qn_status serve_start(const serve_options *options, server **out, qn_error *err)
{
    qn_error own = {.status = QN_STATUS_nomem, .text = "out of memory"};
    server *s = calloc(1, sizeof(*s));
    if (!s) {
        if (err) *err = own;
        return QN_STATUS_nomem;
    }
    s->epoll = s->wake = -1;
    text_watch();
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->events_lock, NULL);
    pthread_mutex_init(&s->responses_lock, NULL);
    pthread_mutex_init(&s->keys_lock, NULL);
    pthread_mutex_init(&s->catalog_lock, NULL);
    pthread_mutex_init(&s->models_lock, NULL);
    pthread_cond_init(&s->job_came, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->models_changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    defaults(s, options);
    if (!keys_set(s, options->keys, options->n_keys)) own.status = QN_STATUS_nomem;
    if (s->keys && (!s->o.tls_cert || tls_read(s, &own)) && catalog_start(s, &own) && loader_start(s, &own) &&
        pump_start(s, &own) && work_start(s, &own) && http_start(s, &own)) {
        *out = s;
        return QN_OK;
    }
    if (err) *err = own;
    serve_stop(s);
    return own.status;
}

int serve_port(const server *s) { return s->port; }

void serve_reload(server *s, const serve_key *list, int n)
{
    qn_error err = {0};
    if (s->o.tls_cert) text_log(s, "the certificate %s", tls_read(s, &err) ? "was read again" : err.text);
    if (s->o.n_keys && n) text_log(s, keys_set(s, list, n) ? "%d keys were read again" : "%d keys: out of memory", n);
    (void)catalog_refresh(s, &(problem){0}); /* which the log tells */
}

/* All of them by id, oldest last, without holding the lock while one is looked at. */
static bool each(server *s, void (*fn)(exchange *x))
{
    uint64_t last = UINT64_MAX;
    bool any = false;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        exchange *x = s->exchanges;
        while (x && (x->id >= last || !exchange_try_hold(x))) x = x->next;
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

/* Requests that have come whole are answered; for the rest of others nobody waits. */
static bool wait_for_none(server *s, int ms)
{
    for (; ms > 0; ms -= 5) {
        bool none = true;
        pthread_mutex_lock(&s->lock);
        for (const exchange *x = s->exchanges; x; x = x->next) none = none && !atomic_load(&x->whole);
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
    loader_stop(s);
    work_stop(s);
    (void)each(s, answers_cancel); /* streams end as their dialect says it */
    if (s->daemon && !wait_for_none(s, GRACE_MS)) {
        (void)each(s, leave);
        (void)wait_for_none(s, GRACE_MS);
    }
    http_stop(s);
    pump_stop(s);
    catalog_deinit(s);
    pthread_cond_destroy(&s->models_changed);
    pthread_mutex_destroy(&s->catalog_lock);
    pthread_mutex_destroy(&s->keys_lock);
    keys_deinit(s);
    tls_deinit();
    pthread_mutex_destroy(&s->models_lock);
    pthread_cond_destroy(&s->job_came);
    pthread_mutex_destroy(&s->events_lock);
    pthread_mutex_destroy(&s->responses_lock);
    responses_deinit(s);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
