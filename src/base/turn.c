/* SPDX-License-Identifier: MIT */
/* src/base/turn.c -- a lock that is fair by time. It is handed over: who gives it chooses, of those who wait, the taker
 * that has had it for the shortest time, the one who came first among equals. */
#include "base/park.h"
#include "base/thread.h"

enum { SHARED_NS = 1000000000 };

typedef struct qn_turn_waiter {
    struct qn_turn_waiter *next;
    qn_turn_taker *taker;
    const void *thread;
    _Atomic int mine;
} waiter;

void qn__turns_init(qn_turns *t)
{
    *t = (qn_turns){0};
    qn__mutex_init(&t->lock);
}

void qn__turns_deinit(qn_turns *t) { qn__mutex_deinit(&t->lock); }

/* Another address in each thread. */
static const void *this_thread(void)
{
    static _Thread_local char here;
    return &here;
}

/* Under lock. Takers of one thread, such as a batcher's session and its samplers, don't wait for each other. */
static void begin(qn_turns *t, qn_turn_taker *taker, const void *thread)
{
    t->start_ns = qn__now_ns();
    if (t->last && t->last != taker && t->last_thread != thread) t->changed_ns = t->start_ns;
    t->taken = true;
    t->last = taker;
    t->last_thread = thread;
    t->used_ns = taker->used_ns;
}

void qn__turns_take(qn_turns *t, qn_turn_taker *taker)
{
    waiter me = {.taker = taker, .thread = this_thread()};
    qn__mutex_lock(&t->lock);
    if (taker->used_ns < t->used_ns) taker->used_ns = t->used_ns;
    if (!t->taken) {
        begin(t, taker, me.thread);
        qn__mutex_unlock(&t->lock);
        return;
    }
    waiter **end = &t->waiting;
    while (*end) end = &(*end)->next;
    *end = &me;
    qn__mutex_unlock(&t->lock);
    while (!atomic_load_explicit(&me.mine, memory_order_acquire)) qn__park(&me.mine, 0);
    qn__mutex_lock(&t->lock); /* whoever gave it is done with `me` */
    qn__mutex_unlock(&t->lock);
}

bool qn__turns_try(qn_turns *t, qn_turn_taker *taker)
{
    qn__mutex_lock(&t->lock);
    const bool mine = !t->taken;
    if (taker->used_ns < t->used_ns) taker->used_ns = t->used_ns;
    if (mine) begin(t, taker, this_thread());
    qn__mutex_unlock(&t->lock);
    return mine;
}

void qn__turns_give(qn_turns *t, qn_turn_taker *taker)
{
    qn__mutex_lock(&t->lock);
    taker->used_ns += qn__now_ns() - t->start_ns;
    t->taken = false;
    waiter **next = &t->waiting;
    for (waiter **at = next; *at; at = &(*at)->next)
        if ((*at)->taker->used_ns < (*next)->taker->used_ns) next = at;
    waiter *w = *next;
    if (w) {
        *next = w->next;
        begin(t, w->taker, w->thread);
        atomic_store_explicit(&w->mine, 1, memory_order_release);
        qn__unpark_all(&w->mine);
    }
    qn__mutex_unlock(&t->lock);
}

void qn__turns_forget(qn_turns *t, const qn_turn_taker *taker)
{
    qn__mutex_lock(&t->lock);
    if (t->last == taker) t->last = NULL;
    t->changed_ns = 0;
    qn__mutex_unlock(&t->lock);
}

bool qn__turns_shared(qn_turns *t, const qn_turn_taker *taker)
{
    qn__mutex_lock(&t->lock);
    bool shared = t->changed_ns && qn__now_ns() - t->changed_ns < SHARED_NS;
    for (const waiter *w = t->waiting; w; w = w->next) shared |= w->taker != taker;
    qn__mutex_unlock(&t->lock);
    return shared;
}
