/* SPDX-License-Identifier: MIT */
/* src/engine/pager_share.c -- the open engines of a process, and what each gets of the memory for weights. */
#include "engine/pager.h"

#define MOST 64 /* others that are told apart; those beyond count as taken */

static qn_once once;
static qn_mutex lock;
static qn_engine *list; /* under lock */
static _Atomic uint64_t changes;

static void make_lock(void) { qn__mutex_init(&lock); }

void qn__pager_enter(qn_engine *e)
{
    qn__once(&once, make_lock);
    qn__mutex_lock(&lock);
    e->is_open = true;
    e->next_open = list;
    list = e;
    atomic_fetch_add(&changes, 1);
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

uint64_t qn__pager_part(const qn_engine *e, uint64_t room)
{
    uint64_t others[MOST];
    int n = 0;
    qn__mutex_lock(&lock);
    for (const qn_engine *x = list; x; x = x->next_open) {
        const uint64_t bytes = qn__mapped_bytes(x);
        if (x == e) continue;
        if (x->memory && n < MOST)
            others[n++] = bytes;
        else
            room = room > bytes ? room - bytes : 0;
    }
    qn__mutex_unlock(&lock);
    return qn__paging_part(room, others, n);
}
