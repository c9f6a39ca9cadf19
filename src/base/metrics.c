/* SPDX-License-Identifier: MIT */
/* src/base/metrics.c -- the process-wide counters. A shard only ever grows: a reset notes what the sum is now, and that
 * is subtracted from then on, so a record that is made meanwhile is counted once, before or after. */
#include "base/metrics.h"
#include <pthread.h>
#include <string.h>

qn_metric_shard qn__metric_shards[QN_METRIC_SHARDS + 1];
qn_gauges qn__gauges;
_Thread_local int qn__metric_mine = -1;

static _Atomic bool taken[QN_METRIC_SHARDS + 1];
static _Atomic int highest; /* shard that was ever taken */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what was reset */
static qn_metrics base;

/* ---- whose shard ---- */

/* What the thread still counts goes to the shared one. */
static void leave(void *shard)
{
    _Atomic bool *mine = shard;
    qn__metric_mine = 0;
    atomic_store_explicit(mine, false, memory_order_release);
}

static void make_key(void) { have_key = pthread_key_create(&key, leave) == 0; }

int qn__metric_join(void)
{
    qn__metric_mine = 0;
    pthread_once(&once, make_key);
    for (int i = 1; have_key && i <= QN_METRIC_SHARDS; i++) {
        bool free = false;
        if (!atomic_compare_exchange_strong_explicit(&taken[i], &free, true, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        if (pthread_setspecific(key, &taken[i]) != 0) {
            atomic_store_explicit(&taken[i], false, memory_order_release);
            break;
        }
        int most = atomic_load_explicit(&highest, memory_order_relaxed);
        while (most < i &&
               !atomic_compare_exchange_weak_explicit(&highest, &most, i, memory_order_release, memory_order_relaxed)) {
        }
        return qn__metric_mine = i;
    }
    return 0;
}

/* ---- sums ---- */

static uint64_t sum_of(const _Atomic uint64_t *first, size_t stride)
{
    uint64_t sum = 0;
    const int n = atomic_load_explicit(&highest, memory_order_acquire);
    for (int i = 0; i <= n; i++) sum += atomic_load_explicit(first + (size_t)i * stride, memory_order_relaxed);
    return sum;
}

enum { STRIDE = sizeof(qn_metric_shard) / sizeof(uint64_t) };

static void sum_histogram(int id, qn_histogram *out)
{
    const qn_metric_shard *s = qn__metric_shards;
    out->sum_ns = sum_of(&s->sum_ns[id], STRIDE);
    for (int i = 0; i < QN_HISTOGRAM_BUCKETS; i++) out->bucket[i] = sum_of(&s->bucket[id][i], STRIDE);
}

/* Since the first record. */
static void sum_all(qn_metrics *out)
{
    memset(out, 0, sizeof(*out));
#define SUM(name, unit, text) out->name = sum_of(&qn__metric_shards->counter[QN_METRIC_##name], STRIDE);
    QN_COUNTER_ROWS(SUM)
#undef SUM
#define SUM(name, text) sum_histogram(QN_HISTOGRAM_##name, &out->name);
    QN_HISTOGRAM_ROWS(SUM)
#undef SUM
}

static void since(const qn_histogram *start, qn_histogram *h)
{
    h->count = 0;
    h->sum_ns -= start->sum_ns;
    for (int i = 0; i < QN_HISTOGRAM_BUCKETS; i++) h->count += h->bucket[i] -= start->bucket[i];
}

static void read_all(qn_metrics *out, bool take)
{
    qn_metrics now;
    pthread_mutex_lock(&lock);
    sum_all(&now);
    *out = now;
#define SINCE(name, unit, text) out->name -= base.name;
    QN_COUNTER_ROWS(SINCE)
#undef SINCE
#define SINCE(name, text) since(&base.name, &out->name);
    QN_HISTOGRAM_ROWS(SINCE)
#undef SINCE
#define READ(name, unit, text) out->name = QN_GAUGE_READ(name);
    QN_GAUGE_ROWS(READ)
#undef READ
    if (take) base = now;
    if (take) atomic_store_explicit(&qn__gauges.peak_bytes, QN_GAUGE_READ(live_bytes), memory_order_relaxed);
    pthread_mutex_unlock(&lock);
}

void qn_metrics_snapshot(qn_metrics *out) { read_all(out, false); }
void qn_metrics_take(qn_metrics *out) { read_all(out, true); }

void qn_metrics_reset(void)
{
    qn_metrics before;
    read_all(&before, true);
}

uint64_t qn__metric_read(int id)
{
    static const size_t at[] = {
#define OFFSET(name, unit, text) offsetof(qn_metrics, name),
        QN_COUNTER_ROWS(OFFSET)
#undef OFFSET
    };
    pthread_mutex_lock(&lock);
    const uint64_t n = sum_of(&qn__metric_shards->counter[id], STRIDE) -
                       *(const uint64_t *)(const void *)((const char *)&base + at[id]);
    pthread_mutex_unlock(&lock);
    return n;
}

void qn__metric_sum(const _Atomic uint64_t *first, int stride, int n, uint64_t *start, bool take, uint64_t *out)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++) {
        const uint64_t sum = sum_of(first + i, (size_t)stride);
        out[i] = sum - start[i];
        if (take) start[i] = sum;
    }
    pthread_mutex_unlock(&lock);
}
