/* SPDX-License-Identifier: MIT */
/* src/engine/pager_share.c -- the open engines of a process, and what each gets of the memory for weights. The lock is
 * taken by who has an engine's turn; who has the lock takes a turn only when it is free. */
#include "base/metrics.h"
#include "engine/pager.h"

#define MOST 64 /* others that are told apart; those beyond count as taken */

static qn_once once;
static qn_mutex lock;
static qn_engine *list; /* under lock */
static _Atomic uint64_t changes, opened;

static void make_lock(void) { qn__mutex_init(&lock); }

/* Under lock. */
static uint64_t part(const qn_engine *e)
{
    const uint64_t taken = QN_GAUGE_READ(live_bytes) + e->reserve;
    uint64_t room = e->memory > taken ? e->memory - taken : 0, others[MOST];
    int n = 0;
    for (const qn_engine *x = list; x; x = x->next_open) {
        const uint64_t bytes = qn__mapped_bytes(x);
        if (x == e) continue;
        if (x->memory && n < MOST)
            others[n++] = bytes;
        else
            room = room > bytes ? room - bytes : 0;
    }
    return qn__paging_part(room, others, n);
}

/* Under lock. Whoever computes does it himself, at his next run or behind this one. */
static void give_back(qn_engine *e)
{
    qn_turn_taker me = {0};
    const uint64_t now = atomic_load(&opened);
    if (!e->pager || atomic_load(&e->pager->opened) == now || !qn__turns_try(&e->turns, &me)) return;
    qn__pager_trim(e->pager, part(e));
    atomic_store(&e->pager->opened, now);
    qn__turns_give(&e->turns, &me);
    qn__turns_forget(&e->turns, &me);
}

void qn__pager_enter(qn_engine *e)
{
    qn__once(&once, make_lock);
    qn__mutex_lock(&lock);
    e->is_open = true;
    e->next_open = list;
    list = e;
    atomic_fetch_add(&changes, 1);
    const uint64_t now = atomic_fetch_add(&opened, 1) + 1;
    if (e->pager) atomic_store(&e->pager->opened, now);
    for (qn_engine *x = e->next_open; x; x = x->next_open) give_back(x);
    qn__mutex_unlock(&lock);
}

void qn__pager_leave(qn_engine *e)
{
    if (!e->is_open) return;
    qn__mutex_lock(&lock);
    qn_engine **at = &list;
    while (*at != e) at = &(*at)->next_open;
    *at = e->next_open;
    e->is_open = false;
    atomic_fetch_add(&changes, 1);
    qn__mutex_unlock(&lock);
}

uint64_t qn__pager_engines(void) { return atomic_load_explicit(&changes, memory_order_acquire); }

uint64_t qn__pager_opened(void) { return atomic_load(&opened); }

uint64_t qn__pager_part(const qn_engine *e)
{
    qn__mutex_lock(&lock);
    const uint64_t bytes = part(e);
    qn__mutex_unlock(&lock);
    return bytes;
}

void qn__pager_give_turn(qn_engine *e, qn_turn_taker *taker)
{
    qn__turns_give(&e->turns, taker);
    if (!e->pager || atomic_load(&e->pager->opened) == atomic_load(&opened)) return;
    qn__mutex_lock(&lock);
    give_back(e);
    qn__mutex_unlock(&lock);
}
