/* SPDX-License-Identifier: MIT */
/* src/base/pool.c -- large buffers kept between uses. Idle buffers of a class form a last-in first-out list threaded
 * through the buffers themselves: the one handed out is the one most likely still in the cache, and a hit costs a lock,
 * a pop and a count. Memory freshly mapped by the system costs a page fault every 4 KiB at its first touch; a hit saves
 * those. */
#include "base/error.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/poison.h"
#include "base/thread.h"

#define IDLE_BYTES ((size_t)64 << 20)

static const size_t class_bytes[] = {(size_t)128 << 10, (size_t)512 << 10, (size_t)1 << 20, (size_t)4 << 20};
#define N_CLASSES (sizeof class_bytes / sizeof class_bytes[0])

typedef struct idle {
    struct idle *next;
} idle;

struct qn_pool {
    qn_mutex mutex;
    size_t max_idle_bytes;
    idle *idle[N_CLASSES];
    qn_pool_stats stats;
};

qn_pool *qn__pool_create(size_t max_idle_bytes)
{
    qn_pool *pool = qn__calloc(1, sizeof *pool);
    if (pool == NULL) return NULL;
    pool->max_idle_bytes = max_idle_bytes != 0 ? max_idle_bytes : IDLE_BYTES;
    qn__mutex_init(&pool->mutex);
    return pool;
}

void qn__pool_destroy(qn_pool *pool)
{
    if (pool == NULL) return;
    for (size_t c = 0; c < N_CLASSES; c++) {
        while (pool->idle[c] != NULL) {
            idle *b = pool->idle[c];
            pool->idle[c] = b->next;
            QN_SHOW(b, class_bytes[c]);
            qn__free(b);
        }
    }
    qn__mutex_deinit(&pool->mutex);
    qn__free(pool);
}

static size_t class_of(size_t size)
{
    size_t c = 0;
    while (c < N_CLASSES && size > class_bytes[c]) c++;
    return c;
}

void *qn__pool_get(qn_pool *pool, size_t size)
{
    const size_t c = class_of(size);
    idle *b = NULL;
    qn__mutex_lock(&pool->mutex);
    if (c == N_CLASSES) {
        pool->stats.direct++;
    } else if ((b = pool->idle[c]) != NULL) {
        pool->idle[c] = b->next;
        pool->stats.idle_bytes -= class_bytes[c];
        pool->stats.hits++;
    } else {
        pool->stats.misses++;
    }
    qn__mutex_unlock(&pool->mutex);
    if (b == NULL) return qn__alloc_aligned(c < N_CLASSES ? class_bytes[c] : size, QN_ALIGN_GPU);
    QN_COUNT(pool_hits, 1);
    QN_SHOW(b, class_bytes[c]);
    return b;
}

void qn__pool_put(qn_pool *pool, void *ptr, size_t size)
{
    if (ptr == NULL) return;
    const size_t c = class_of(size);
    bool kept = false;
    if (c < N_CLASSES) {
        idle *b = ptr;
        qn__poison((char *)ptr + sizeof *b, class_bytes[c] - sizeof *b);
        qn__mutex_lock(&pool->mutex);
        kept =
            class_bytes[c] <= pool->max_idle_bytes && pool->stats.idle_bytes <= pool->max_idle_bytes - class_bytes[c];
        if (kept) {
            b->next = pool->idle[c];
            pool->idle[c] = b;
            pool->stats.idle_bytes += class_bytes[c];
        }
        qn__mutex_unlock(&pool->mutex);
        if (!kept) QN_SHOW(ptr, class_bytes[c]);
    }
    if (!kept) qn__free(ptr);
}

void qn__pool_get_stats(qn_pool *pool, qn_pool_stats *out)
{
    qn__mutex_lock(&pool->mutex);
    *out = pool->stats;
    qn__mutex_unlock(&pool->mutex);
}
