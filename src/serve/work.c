/* SPDX-License-Identifier: MIT */
/* src/serve/work.c -- workers: threads that read requests, so that neither the HTTP threads nor the executor wait for a
 * long prompt to be tokenized; and the computer, one thread that does what takes the model's time without being a
 * stream: embeddings. */
#include "serve/exchange.h"
#include <signal.h>
#include <string.h>

void work_add(exchange *x)
{
    server *s = exchange_hold(x)->server;
    const int kind = x->route->by == BY_computer;
    problem p = {0};
    pthread_mutex_lock(&s->lock);
    if (s->stopping) {
        problem_set(&p, 503, "", "the server is stopping"); /* its body came late: no worker is left */
    } else {
        x->next_job = NULL;
        *s->jobs[kind].end = x;
        s->jobs[kind].end = &x->next_job;
        pthread_cond_broadcast(&s->job_came);
    }
    pthread_mutex_unlock(&s->lock);
    if (!p.status) return;
    exchange_refuse(x, &p);
    exchange_release(x);
}

static exchange *next_job(server *s, int kind)
{
    pthread_mutex_lock(&s->lock);
    while (!s->jobs[kind].first && !s->stopping) pthread_cond_wait(&s->job_came, &s->lock);
    exchange *x = s->jobs[kind].first;
    if (x) {
        s->jobs[kind].first = x->next_job;
        if (!x->next_job) s->jobs[kind].end = &s->jobs[kind].first;
    }
    pthread_mutex_unlock(&s->lock);
    return x;
}

static void *work(server *s, int kind)
{
    exchange *x;
    while ((x = next_job(s, kind))) {
        if (!exchange_is_gone(x) && loader_enter(x)) exchange_handle(x);
        exchange_release(x);
    }
    return NULL;
}

static void *worker(void *ctx) { return work(ctx, 0); }
static void *computer(void *ctx) { return work(ctx, 1); }

bool work_start(server *s, qn_error *err)
{
    sigset_t all, old;
    const int n = 1 + (s->o.n_threads ? s->o.n_threads : 2);
    for (int i = 0; i < 2; i++) s->jobs[i].end = &s->jobs[i].first;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (s->n_workers < n && s->n_workers < (int)(sizeof(s->workers) / sizeof(s->workers[0]))) {
        const int rc = pthread_create(&s->workers[s->n_workers], NULL, s->n_workers ? worker : computer, s);
        if (rc == 0) {
            s->n_workers++;
            continue;
        }
        err->status = QN_STATUS_limit;
        snprintf(err->text, sizeof(err->text), "cannot start a thread: %s", strerror(rc));
        break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return s->n_workers == n;
}

void work_stop(server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->job_came);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_workers; i++) pthread_join(s->workers[i], NULL);
    s->n_workers = 0;
}
