/* SPDX-License-Identifier: MIT */
/* src/base/metrics.h -- recording into the process-wide counters of quern/metrics.h. Each thread adds to a shard that
 * no other thread writes; a thread that ends leaves its numbers there, to whoever takes the shard next. Where there are
 * more threads than shards, the rest share one. Never allocates, never waits. */
#ifndef QN_BASE_METRICS_H
#define QN_BASE_METRICS_H
#include <quern/metrics.h>
#include <stdatomic.h>

enum {
#define QN_METRIC_ID(name, unit, text) QN_METRIC_##name,
    QN_COUNTER_ROWS(QN_METRIC_ID)
#undef QN_METRIC_ID
        QN_COUNTER_COUNT
};
enum {
#define QN_HISTOGRAM_ID(name, text) QN_HISTOGRAM_##name,
    QN_HISTOGRAM_ROWS(QN_HISTOGRAM_ID)
#undef QN_HISTOGRAM_ID
        QN_HISTOGRAM_COUNT
};

enum { QN_METRIC_SHARDS = 64 }; /* and shard 0, which is shared */

typedef struct qn_metric_shard {
    _Alignas(64) _Atomic uint64_t counter[QN_COUNTER_COUNT];
    _Atomic uint64_t sum_ns[QN_HISTOGRAM_COUNT], bucket[QN_HISTOGRAM_COUNT][QN_HISTOGRAM_BUCKETS];
} qn_metric_shard;
extern qn_metric_shard qn__metric_shards[QN_METRIC_SHARDS + 1];

typedef struct qn_gauges {
#define QN_GAUGE_FIELD(name, unit, text) _Atomic uint64_t name;
    QN_GAUGE_ROWS(QN_GAUGE_FIELD)
#undef QN_GAUGE_FIELD
} qn_gauges;
extern qn_gauges qn__gauges;

extern _Thread_local int qn__metric_mine; /* this thread's shard; 0: the shared one; -1: none yet */
int qn__metric_join(void);

static inline int qn__metric_shard_of_thread(void)
{
    return qn__metric_mine >= 0 ? qn__metric_mine : qn__metric_join();
}

/* To a number of a shard: that of the thread, which alone writes it, or the shared one. */
static inline void qn__metric_add(_Atomic uint64_t *at, int shard, uint64_t n)
{
    if (shard > 0)
        atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(at, n, memory_order_relaxed);
}

static inline void qn__count(int id, uint64_t n)
{
    const int shard = qn__metric_shard_of_thread();
    qn__metric_add(&qn__metric_shards[shard].counter[id], shard, n);
}

/* Of microseconds rounded up, the bits: bucket i has (2^(i-1), 2^i]. */
static inline int qn__bucket_of(uint64_t ns)
{
    const uint64_t us = ns / 1000 + (ns % 1000 != 0);
    const int i = us > 1 ? 64 - __builtin_clzll(us - 1) : 0;
    return i < QN_HISTOGRAM_BUCKETS ? i : QN_HISTOGRAM_BUCKETS - 1;
}

static inline void qn__observe(int id, uint64_t ns)
{
    const int shard = qn__metric_shard_of_thread();
    qn_metric_shard *s = &qn__metric_shards[shard];
    qn__metric_add(&s->sum_ns[id], shard, ns);
    qn__metric_add(&s->bucket[id][qn__bucket_of(ns)], shard, 1);
}

#define QN_COUNT(name, n)     qn__count(QN_METRIC_##name, (uint64_t)(n))
#define QN_OBSERVE(name, ns)  qn__observe(QN_HISTOGRAM_##name, (uint64_t)(ns))
/* Of gauges. */
#define QN_GAUGE_ADD(name, n) ((void)atomic_fetch_add_explicit(&qn__gauges.name, (uint64_t)(n), memory_order_relaxed))
#define QN_GAUGE_SUB(name, n) ((void)atomic_fetch_sub_explicit(&qn__gauges.name, (uint64_t)(n), memory_order_relaxed))
#define QN_GAUGE_READ(name)   atomic_load_explicit(&qn__gauges.name, memory_order_relaxed)
/* Of a counter, since the last reset. */
#define QN_METRIC_READ(name)  qn__metric_read(QN_METRIC_##name)
uint64_t qn__metric_read(int id);

/* For totals of rooms above, kept the same way: of [shards + 1, stride] the n numbers from `first` on, as counted since
 * `start` [n]; take: they begin anew. */
void qn__metric_sum(const _Atomic uint64_t *first, int stride, int n, uint64_t *start, bool take, uint64_t *out);
#endif
