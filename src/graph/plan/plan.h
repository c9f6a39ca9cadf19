/* SPDX-License-Identifier: MIT */
/* src/graph/plan/plan.h -- where every value lives: lifetimes, and offsets into one activation buffer a place. Pure
 * arithmetic over a graph whose nodes have places and scratch sizes; nothing is allocated for tensors (a dry run is
 * just this without what follows). Inputs keep their memory for the whole run, outputs from where they are computed to
 * its end. */
#ifndef QN_GRAPH_PLAN_H
#define QN_GRAPH_PLAN_H

#include "graph/graph.h"

#define QN_MAX_PLACES 8

typedef struct qn_plan {
    int n_places;
    uint64_t bytes[QN_MAX_PLACES];     /* peak of each place's activation buffer */
    uint64_t sum_bytes[QN_MAX_PLACES]; /* sum of all values laid there, what it would take without reuse */
    int32_t n_values, n_inplace;       /* values laid out; over their source's memory, or where they are assigned to */
} qn_plan;

/* Has values computed where they are assigned to. last: by id of a root, its last reader. */
void qn__plan_lend(qn_graph *g, const int32_t *last, qn_plan *plan);
/* Writes node->offset and node->scratch_offset. `align` is a power of two. limit when a size overflows. */
qn_status qn__plan_make(qn_graph *g, int n_places, uint64_t align, qn_plan *out, qn_error *err);
/* No two values alive at once overlap: for tests and checked builds. O(n^2). */
qn_status qn__plan_verify(const qn_graph *g, const qn_plan *plan, qn_error *err);
/* One line a value: offset, size, first and last use, name. */
qn_status qn__plan_print(const qn_graph *g, const qn_plan *plan, qn_str *out, qn_error *err);

/* ---- the cache of compiled graphs ---- */
/* Least recently used out first. Keys are bytes, compared whole: everything that shapes the topology belongs in them.
 * Values are owned by the cache. Hits and misses are counted here and in the metrics. */
typedef struct qn_cache qn_cache;
qn_status qn__cache_create(int capacity, void (*destroy)(void *value), qn_cache **out, qn_error *err);
void qn__cache_destroy(qn_cache *cache);
void *qn__cache_find(qn_cache *cache, const void *key, size_t key_bytes); /* NULL is a miss */
/* Takes the value in any case: on failure it is destroyed. Evicts when full. */
qn_status qn__cache_put(qn_cache *cache, const void *key, size_t key_bytes, void *value, qn_error *err);
void qn__cache_clear(qn_cache *cache);

#endif
