/* SPDX-License-Identifier: MIT */
/* src/base/metrics.h -- recording into the process-wide counters of quern/base.h. Relaxed atomics, never allocates. */
#ifndef QN_BASE_METRICS_H
#define QN_BASE_METRICS_H
#include <quern/base.h>
#include <stdatomic.h>

typedef struct qn_metrics_atomic {
#define QN_METRIC_ATOMIC(name, text) _Atomic uint64_t name;
    QN_METRIC_ROWS(QN_METRIC_ATOMIC)
#undef QN_METRIC_ATOMIC
} qn_metrics_atomic;
extern qn_metrics_atomic qn__metrics;

#define QN_COUNT(name, n)    ((void)atomic_fetch_add_explicit(&qn__metrics.name, (uint64_t)(n), memory_order_relaxed))
#define QN_UNCOUNT(name, n)  ((void)atomic_fetch_sub_explicit(&qn__metrics.name, (uint64_t)(n), memory_order_relaxed))
#define QN_METRIC_READ(name) atomic_load_explicit(&qn__metrics.name, memory_order_relaxed)
#endif
