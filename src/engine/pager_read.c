/* SPDX-License-Identifier: MIT */
/* src/engine/pager_read.c -- the thread that reads and drops, and how it is told: counts that only grow, and a ring of
 * requests. No lock: who computes stores a count, and wakes or waits only where there is something to wait for. */
#include "base/metrics.h"
#include "base/park.h"
#include "engine/pager.h"

/* A run of blocks that lie behind each other: of `order` from place i on, at most `most`. */
static int32_t run_of(const qn_pager *p, const int32_t *order, int32_t n_order, int32_t i, uint64_t most)
{
    int32_t n = 1;
    while ((uint64_t)n < most && n < QN_PAGING_GROUP && i + n < n_order && order[i + n] == order[i] + n &&
           p->blocks[order[i]].part == p->blocks[order[i + n]].part)
        n++;
    return n;
}

static const qn_map *place_of(const qn_pager *p, int32_t block, uint64_t *offset)
{
    const int32_t part = p->blocks[block].part;
    *offset = (uint64_t)(block - p->first_block[part]) * p->block;
    return p->maps[part];
}

static void fetch(qn_pager *p, const qn_map *map, uint64_t offset, uint64_t bytes)
{
    qn__map_fetch(map, offset, bytes);
    atomic_fetch_add_explicit(&p->read_bytes, bytes, memory_order_relaxed);
    QN_COUNT(ahead_bytes, bytes);
}

static void drop(qn_pager *p, const qn_map *map, uint64_t offset, uint64_t bytes)
{
    qn__map_drop(map, offset, bytes);
    atomic_fetch_add_explicit(&p->dropped_bytes, bytes, memory_order_relaxed);
    QN_COUNT(dropped_bytes, bytes);
}

void qn__pager_trim(qn_pager *p, uint64_t bytes)
{
    qn__pager_stop(p);
    atomic_store(&p->stale, true); /* nobody reads now: the next run plans anew */
    for (int32_t i = 0; i < p->n_parts; i++) {
        const uint64_t size = p->maps[i]->size, stays = bytes < size ? bytes : size;
        bytes -= stays;
        if (stays < size) drop(p, p->maps[i], stays, size - stays);
    }
}

static void blocks(qn_pager *p, const int32_t *order, int32_t i, int32_t n,
                   void (*act)(qn_pager *, const qn_map *, uint64_t, uint64_t))
{
    uint64_t offset, bytes = 0;
    const qn_map *map = place_of(p, order[i], &offset);
    for (int32_t k = 0; k < n; k++) bytes += qn__pager_block_bytes(p, order[i + k]);
    act(p, map, offset, bytes);
}

/* Something has come: whoever waits looks again. */
static void arrived(qn_pager *p)
{
    atomic_fetch_add_explicit(&p->arrived, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&p->waits, memory_order_seq_cst)) qn__unpark_all(&p->arrived);
}

/* What nobody uses any more goes first. */
static bool drop_some(qn_pager *p)
{
    const uint64_t released = atomic_load_explicit(&p->released, memory_order_acquire);
    if (p->dropped >= released || p->n_order == 0) return false;
    /* more than once around: the same blocks again */
    if (released - p->dropped > (uint64_t)p->n_order) p->dropped = released - (uint64_t)p->n_order;
    const int32_t i = (int32_t)(p->dropped % (uint64_t)p->n_order);
    const int32_t n = run_of(p, p->order, p->n_order, i, released - p->dropped);
    blocks(p, p->order, i, n, drop);
    p->dropped += (uint64_t)n;
    return true;
}

/* Requests in the order that they were made; those to come are begun, so that the disk has several at once. */
static bool serve_one(qn_pager *p)
{
    const uint64_t at = atomic_load_explicit(&p->served, memory_order_relaxed),
                   end = atomic_load_explicit(&p->pushed, memory_order_acquire);
    if (at == end) return false;
    if (p->submitted < at) p->submitted = at;
    for (; p->submitted < end; p->submitted++) {
        const qn_page_request *r = &p->ring[p->submitted % QN_PAGER_RING];
        if (!r->drop) qn__map_read_ahead(p->maps[r->part], r->offset, r->bytes);
    }
    const qn_page_request *r = &p->ring[at % QN_PAGER_RING];
    (r->drop ? drop : fetch)(p, p->maps[r->part], r->offset, r->bytes);
    atomic_store_explicit(&p->served, at + 1, memory_order_release);
    arrived(p);
    return true;
}

static bool read_some(qn_pager *p)
{
    const uint64_t goal = atomic_load_explicit(&p->goal, memory_order_acquire),
                   released = atomic_load_explicit(&p->released, memory_order_acquire);
    uint64_t read = atomic_load_explicit(&p->read, memory_order_relaxed);
    if (read < released) read = released; /* a graph that left some out */
    if (read >= goal) {
        atomic_store_explicit(&p->read, read, memory_order_release);
        return false;
    }
    const int32_t i = (int32_t)(read % (uint64_t)p->n_order);
    const int32_t n = run_of(p, p->order, p->n_order, i, goal - read);
    blocks(p, p->order, i, n, fetch);
    atomic_store_explicit(&p->read, read + (uint64_t)n, memory_order_release);
    arrived(p);
    return true;
}

/* What stays is read once, when nobody waits for anything else. */
static bool keep_some(qn_pager *p)
{
    if (p->kept >= p->n_keep) return false;
    const int32_t n = run_of(p, p->keep, p->n_keep, p->kept, QN_PAGING_GROUP);
    blocks(p, p->keep, p->kept, n, fetch);
    p->kept += n;
    return true;
}

/* Then experts that have a place and weren't chosen yet: as much as a block of neighbours at once, for which one that
 * is chosen now has to wait. 500 MB cost a decode on both of two cores 0.35 s, and save it 6 % afterwards. */
static bool fill_some(qn_pager *p)
{
    int32_t at = p->filled, matrix = 0;
    while (matrix < p->n_experts && at >= p->experts[matrix].set.n) at -= p->experts[matrix++].set.n;
    if (matrix >= p->n_experts) return false;
    qn_page_experts *x = &p->experts[matrix];
    int32_t n = 0;
    for (uint64_t bytes = 0; at + n < x->set.n && (n == 0 || bytes + x->bytes <= p->block); n++, bytes += x->bytes) {
        uint8_t was = QN_PAGE_UNREAD;
        if (!atomic_compare_exchange_strong(&x->early[at + n], &was, QN_PAGE_READING)) break;
    }
    if (n > 0) fetch(p, p->maps[x->part], x->offset + (uint64_t)at * x->bytes, (uint64_t)n * x->bytes);
    for (int32_t i = 0; i < n; i++) {
        uint8_t was = QN_PAGE_READING;
        (void)atomic_compare_exchange_strong(&x->early[at + i], &was, QN_PAGE_READ);
    }
    p->filled += n > 0 ? n : 1;
    return true;
}

static void work(void *ctx)
{
    qn_pager *p = ctx;
    while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
        const int rung = atomic_load_explicit(&p->bell, memory_order_acquire);
        if (drop_some(p) || serve_one(p) || read_some(p) || keep_some(p) || fill_some(p)) continue;
        atomic_store_explicit(&p->asleep, true, memory_order_seq_cst);
        if (atomic_load_explicit(&p->bell, memory_order_seq_cst) == rung) qn__park(&p->bell, rung);
        atomic_store_explicit(&p->asleep, false, memory_order_relaxed);
    }
}

void qn__pager_ring(qn_pager *p)
{
    atomic_fetch_add_explicit(&p->bell, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&p->asleep, memory_order_seq_cst)) qn__unpark_all(&p->bell);
}

void qn__pager_wait(qn_pager *p, const _Atomic uint64_t *count, uint64_t least)
{
    if (atomic_load_explicit(count, memory_order_acquire) >= least) return;
    const int64_t start = qn__now_ns();
    const uint64_t began = qn__trace_begin();
    atomic_store_explicit(&p->waits, true, memory_order_seq_cst);
    for (;;) {
        const int seen = atomic_load_explicit(&p->arrived, memory_order_seq_cst);
        if (atomic_load_explicit(count, memory_order_acquire) >= least) break;
        qn__park(&p->arrived, seen);
    }
    atomic_store_explicit(&p->waits, false, memory_order_relaxed);
    qn__trace_end(QN_TRACE_weights, began);
    const int64_t ns = qn__now_ns() - start;
    p->stats.waits++;
    p->stats.wait_seconds += (double)ns * 1e-9;
    QN_COUNT(ahead_waits, 1);
    QN_COUNT(ahead_wait_ns, ns);
}

void qn__pager_push(qn_pager *p, bool is_drop, int32_t part, uint64_t offset, uint64_t bytes)
{
    const uint64_t at = atomic_load_explicit(&p->pushed, memory_order_relaxed);
    if (at >= QN_PAGER_RING) qn__pager_wait(p, &p->served, at + 1 - QN_PAGER_RING);
    p->ring[at % QN_PAGER_RING] = (qn_page_request){offset, bytes, part, is_drop};
    atomic_store_explicit(&p->pushed, at + 1, memory_order_release);
    qn__pager_ring(p);
}

qn_status qn__pager_start(qn_pager *p, qn_error *err)
{
    if (p->running) return QN_OK;
    if (!p->worker) QN_TRY(qn__worker_create(&p->worker, err));
    atomic_store(&p->stop, false);
    QN_TRY(qn__worker_submit(p->worker, work, p, err));
    p->running = true;
    return QN_OK;
}

void qn__pager_stop(qn_pager *p)
{
    if (!p->running) return;
    atomic_store(&p->stop, true);
    qn__pager_ring(p);
    qn__worker_wait(p->worker);
    p->running = false;
}
