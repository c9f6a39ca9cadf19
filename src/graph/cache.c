/* SPDX-License-Identifier: MIT */
/* src/graph/cache.c -- a map from bytes to values with a fixed number of entries; the least recently used leaves first.
 * Entries are in one hash chain and in one list by time of use. Finding allocates nothing. */
#include "graph/plan/plan.h"
#include "base/metrics.h"
#include <string.h>

#define MAX_CAPACITY (1 << 20) /* the index is allocated whole */
#define MAX_KEY      (1 << 20) /* a key is a few dozen numbers */

typedef struct entry entry;
struct entry {
    entry *chain; /* next in the same bucket */
    entry *newer, *older;
    void *value;
    uint64_t hash;
    size_t key_bytes;
    unsigned char key[];
};

struct qn_cache {
    void (*destroy)(void *value);
    entry *newest, *oldest;
    entry **buckets;
    uint64_t mask;
    int capacity, n_entries;
};

qn_status qn__cache_create(int capacity, void (*destroy)(void *value), qn_cache **out, qn_error *err)
{
    if (capacity < 1 || capacity > MAX_CAPACITY) {
        return QN_FAIL(err, invalid, "a cache of %d entries, 1 to %d expected", capacity, MAX_CAPACITY);
    }
    size_t n_buckets = 8;
    while (n_buckets < (size_t)capacity * 2) n_buckets *= 2;
    const size_t bytes = sizeof(qn_cache) + n_buckets * sizeof(entry *);
    qn_cache *c = qn__calloc(1, bytes);
    if (c == NULL) return QN_FAIL_NOMEM(err, bytes);
    *c = (qn_cache){.destroy = destroy, .buckets = (entry **)(c + 1), .mask = n_buckets - 1, .capacity = capacity};
    *out = c;
    return QN_OK;
}

void qn__cache_destroy(qn_cache *cache)
{
    if (cache == NULL) return;
    qn__cache_clear(cache);
    qn__free(cache);
}

static void unlink_use(qn_cache *c, entry *e)
{
    if (e->newer != NULL)
        e->newer->older = e->older;
    else
        c->newest = e->older;
    if (e->older != NULL)
        e->older->newer = e->newer;
    else
        c->oldest = e->newer;
}

static void link_newest(qn_cache *c, entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    if (c->newest != NULL)
        c->newest->newer = e;
    else
        c->oldest = e;
    c->newest = e;
}

static void touch(qn_cache *c, entry *e)
{
    unlink_use(c, e);
    link_newest(c, e);
}

static entry *lookup(const qn_cache *c, uint64_t hash, const void *key, size_t key_bytes)
{
    entry *e = c->buckets[hash & c->mask];
    for (; e != NULL; e = e->chain) {
        if (e->hash != hash || e->key_bytes != key_bytes) continue;
        if (key_bytes == 0 || memcmp(e->key, key, key_bytes) == 0) break;
    }
    return e;
}

static void drop(qn_cache *c, entry *e)
{
    entry **at = &c->buckets[e->hash & c->mask];
    while (*at != e) at = &(*at)->chain;
    *at = e->chain;
    unlink_use(c, e);
    c->n_entries--;
    if (c->destroy != NULL) c->destroy(e->value);
    qn__free(e);
}

void *qn__cache_find(qn_cache *cache, const void *key, size_t key_bytes)
{
    entry *e = lookup(cache, qn__hash(QN_HASH_INIT, key, key_bytes), key, key_bytes);
    if (e == NULL) {
        QN_COUNT(plan_cache_misses, 1);
        return NULL;
    }
    QN_COUNT(plan_cache_hits, 1);
    touch(cache, e);
    return e->value;
}

static qn_status put(qn_cache *c, const void *key, size_t key_bytes, void *value, qn_error *err)
{
    if (value == NULL) return QN_FAIL(err, invalid, "a cache cannot hold NULL: that is what a miss looks like");
    if (key_bytes > MAX_KEY)
        return QN_FAIL(err, limit, "a cache key of %zu bytes, at most %d expected", key_bytes, MAX_KEY);
    const uint64_t hash = qn__hash(QN_HASH_INIT, key, key_bytes);
    entry *old = lookup(c, hash, key, key_bytes);
    if (old != NULL && old->value == value) { /* dropping the old entry would destroy it */
        touch(c, old);
        return QN_OK;
    }
    entry *e = qn__alloc(sizeof *e + key_bytes);
    if (e == NULL) return QN_FAIL_NOMEM(err, sizeof *e + key_bytes);
    *e = (entry){.value = value, .hash = hash, .key_bytes = key_bytes};
    if (key_bytes > 0) memcpy(e->key, key, key_bytes);

    if (old != NULL)
        drop(c, old);
    else if (c->n_entries == c->capacity)
        drop(c, c->oldest);
    e->chain = c->buckets[hash & c->mask];
    c->buckets[hash & c->mask] = e;
    link_newest(c, e);
    c->n_entries++;
    return QN_OK;
}

qn_status qn__cache_put(qn_cache *cache, const void *key, size_t key_bytes, void *value, qn_error *err)
{
    const qn_status status = put(cache, key, key_bytes, value, err);
    if (status != QN_OK && value != NULL && cache->destroy != NULL) cache->destroy(value);
    return status;
}

void qn__cache_clear(qn_cache *cache)
{
    while (cache->newest != NULL) drop(cache, cache->newest);
}
