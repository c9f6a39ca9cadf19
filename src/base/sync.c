/* SPDX-License-Identifier: MIT */
/* src/base/sync.c -- mutex, once, the clock, and the one-thread worker. */
#include "base/error.h"
#include "base/mem.h"
#include "base/park.h"
#include "base/thread.h"
#include "base/thread_start.h"
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t qn__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- mutex ---- */

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(qn_mutex), "qn_mutex must hold a pthread_mutex_t");
_Static_assert(_Alignof(pthread_mutex_t) <= _Alignof(qn_mutex), "qn_mutex must be aligned like a pthread_mutex_t");

static pthread_mutex_t *native(qn_mutex *m) { return (pthread_mutex_t *)(void *)m; }

void qn__mutex_init(qn_mutex *m) { pthread_mutex_init(native(m), NULL); }
void qn__mutex_deinit(qn_mutex *m) { pthread_mutex_destroy(native(m)); }
void qn__mutex_lock(qn_mutex *m) { pthread_mutex_lock(native(m)); }
void qn__mutex_unlock(qn_mutex *m) { pthread_mutex_unlock(native(m)); }

/* ---- once ---- */

enum { ONCE_NEW, ONCE_RUNNING, ONCE_DONE };

void qn__once(qn_once *once, void (*fn)(void))
{
    int state = atomic_load_explicit(&once->state, memory_order_acquire);
    if (state == ONCE_DONE) return;
    if (state == ONCE_NEW && atomic_compare_exchange_strong_explicit(&once->state, &state, ONCE_RUNNING,
                                                                     memory_order_acquire, memory_order_acquire)) {
        fn();
        atomic_store_explicit(&once->state, ONCE_DONE, memory_order_release);
        qn__unpark_all(&once->state);
        return;
    }
    while (atomic_load_explicit(&once->state, memory_order_acquire) == ONCE_RUNNING)
        qn__park(&once->state, ONCE_RUNNING);
}

/* ---- threads ---- */

qn_status qn__thread_start(pthread_t *thread, void *(*fn)(void *), void *arg, int number, int of, qn_error *err)
{
    /* Signals belong to the host program's own threads: ours start with all of them blocked. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int rc = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) return QN_FAIL(err, limit, "cannot start thread %d of %d: %s", number, of, strerror(rc));
    return QN_OK;
}

/* ---- worker ---- */

struct qn_worker {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    void (*fn)(void *); /* NULL when nothing is pending */
    void *ctx;
    bool stop;
};

static void *worker_main(void *arg)
{
    qn_worker *w = arg;
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (w->fn == NULL && !w->stop) pthread_cond_wait(&w->changed, &w->mutex);
        if (w->fn == NULL) break;
        void (*fn)(void *) = w->fn;
        void *ctx = w->ctx;
        pthread_mutex_unlock(&w->mutex);
        fn(ctx);
        pthread_mutex_lock(&w->mutex);
        w->fn = NULL;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

qn_status qn__worker_create(qn_worker **out, qn_error *err)
{
    qn_worker *w = qn__calloc(1, sizeof *w);
    if (w == NULL) return QN_FAIL_NOMEM(err, sizeof *w);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    const qn_status status = qn__thread_start(&w->thread, worker_main, w, 1, 1, err);
    if (status != QN_OK) {
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->mutex);
        qn__free(w);
        return status;
    }
    *out = w;
    return QN_OK;
}

void qn__worker_destroy(qn_worker *worker)
{
    if (worker == NULL) return;
    pthread_mutex_lock(&worker->mutex);
    worker->stop = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->mutex);
    qn__free(worker);
}

qn_status qn__worker_submit(qn_worker *worker, void (*fn)(void *), void *ctx, qn_error *err)
{
    pthread_mutex_lock(&worker->mutex);
    const bool busy = worker->fn != NULL;
    if (!busy) {
        worker->fn = fn;
        worker->ctx = ctx;
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->mutex);
    return busy ? QN_FAIL(err, state, "the worker still has a job, wait for it before submitting another") : QN_OK;
}

void qn__worker_wait(qn_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    while (worker->fn != NULL) pthread_cond_wait(&worker->changed, &worker->mutex);
    pthread_mutex_unlock(&worker->mutex);
}

/* ---- bell ---- */

struct qn_bell {
    pthread_mutex_t mutex;
    pthread_cond_t rung;
    bool ringing;
};

qn_status qn__bell_create(qn_bell **out, qn_error *err)
{
    qn_bell *b = qn__calloc(1, sizeof *b);
    pthread_condattr_t attr;
    if (b == NULL) return QN_FAIL_NOMEM(err, sizeof *b);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&b->rung, &attr);
    pthread_condattr_destroy(&attr);
    *out = b;
    return QN_OK;
}

void qn__bell_destroy(qn_bell *bell)
{
    if (bell == NULL) return;
    pthread_cond_destroy(&bell->rung);
    pthread_mutex_destroy(&bell->mutex);
    qn__free(bell);
}

void qn__bell_ring(qn_bell *bell)
{
    pthread_mutex_lock(&bell->mutex);
    bell->ringing = true;
    pthread_cond_signal(&bell->rung);
    pthread_mutex_unlock(&bell->mutex);
}

void qn__bell_wait(qn_bell *bell, int ms)
{
    const int64_t until = qn__now_ns() + (int64_t)ms * 1000000;
    const struct timespec t = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
    pthread_mutex_lock(&bell->mutex);
    while (!bell->ringing && pthread_cond_timedwait(&bell->rung, &bell->mutex, &t) == 0) {}
    bell->ringing = false;
    pthread_mutex_unlock(&bell->mutex);
}

#define POLITE 10 /* of nice: a tenth of what a computing thread gets where both want a core */

void qn__thread_give_way(void)
{
#ifdef SYS_gettid
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), POLITE); /* on Linux of the thread */
#endif
}
