/* SPDX-License-Identifier: MIT */
/* src/serve/work.c -- workers: threads that read requests, so that neither the HTTP threads nor the executor wait for a
 * long prompt to be tokenized. */
#include "serve/exchange.h"
#include <signal.h>
#include <string.h>

void work_add(exchange *x)
{
    server *s = exchange_hold(x)->server;
    pthread_mutex_lock(&s->lock);
    x->next_job = NULL;
    *s->jobs_end = x;
    s->jobs_end = &x->next_job;
    s->n_jobs++;
    pthread_cond_signal(&s->job_came);
    pthread_mutex_unlock(&s->lock);
}

static exchange *next_job(server *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->jobs && !s->stopping) pthread_cond_wait(&s->job_came, &s->lock);
    exchange *x = s->jobs;
    if (x) {
        s->jobs = x->next_job;
        if (!s->jobs) s->jobs_end = &s->jobs;
        s->n_jobs--;
    }
    pthread_mutex_unlock(&s->lock);
    return x;
}

static void *work(void *ctx)
{
    exchange *x;
    while ((x = next_job(ctx))) {
        if (!exchange_is_gone(x)) x->route->handle(x);
        exchange_release(x);
    }
    return NULL;
}

bool work_start(server *s, qn_error *err)
{
    sigset_t all, old;
    const int n = s->o.n_threads ? s->o.n_threads : 2;
    s->jobs_end = &s->jobs;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (s->n_workers < n && s->n_workers < (int)(sizeof(s->workers) / sizeof(s->workers[0]))) {
        const int rc = pthread_create(&s->workers[s->n_workers], NULL, work, s);
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
