/* SPDX-License-Identifier: MIT */
/* quern/metrics.h -- counters, gauges and histograms of the whole process, always on: what was read and computed, how
 * often, and how long it took; as numbers, as JSON, and as Prometheus reads it.
 *
 *     char *text;
 *     if (qn_metrics_print(QN_METRICS_prometheus, &text, &err) == QN_OK) {
 *         fputs(text, stdout);
 *         qn_free(text);
 *     }
 *
 * Each thread counts in cache lines of its own, without waiting for anybody and without an allocation: a record takes
 * 2 to 5 ns whatever other threads do (bench/metrics.c). Gauges are one number for all, since the peak of a sum is not
 * the sum of peaks. All functions are thread-safe. */
#ifndef QUERN_METRICS_H
#define QUERN_METRICS_H

#include <quern/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* QN_COUNTER(name, unit, "what it counts"): only grows. unit: one (things), bytes, ns (nanoseconds). */
/* clang-format off */
#define QN_COUNTER_ROWS(QN_COUNTER) \
    QN_COUNTER(gguf_parses,       one,   "GGUF headers parsed from start to end") \
    QN_COUNTER(sched_created,     one,   "schedulers created") \
    QN_COUNTER(graph_builds,      one,   "graphs built symbolically") \
    QN_COUNTER(graph_runs,        one,   "compiled graphs run") \
    QN_COUNTER(compute_ns,        ns,    "what those runs took; by operation: qn_op_metrics_snapshot") \
    QN_COUNTER(plan_cache_hits,   one,   "compiled graphs found in a plan cache") \
    QN_COUNTER(plan_cache_misses, one,   "compiled graphs looked for in vain") \
    QN_COUNTER(kernel_tasks,      one,   "graph nodes computed by a backend") \
    QN_COUNTER(transfers,         one,   "values copied from one backend to another during runs") \
    QN_COUNTER(transfer_bytes,    bytes, "their bytes") \
    QN_COUNTER(weight_transfers,  one,   "those of weights, which never change and yet were copied in a run") \
    QN_COUNTER(uploads,           one,   "transfers from the host to a device with memory of its own") \
    QN_COUNTER(upload_bytes,      bytes, "their bytes") \
    QN_COUNTER(downloads,         one,   "transfers from such a device to the host") \
    QN_COUNTER(download_bytes,    bytes, "their bytes") \
    QN_COUNTER(launches,          one,   "kernels, and graphs of captured kernels, that a device was told to compute") \
    QN_COUNTER(captures,          one,   "graphs of kernels captured on a device") \
    QN_COUNTER(device_allocs,     one,   "pieces of memory taken of devices, and of the host for their transfers") \
    QN_COUNTER(device_wait_ns,    ns,    "time that the host waited for devices") \
    QN_COUNTER(inputs_shared,     one,   "products compiled to use what their neighbour prepared") \
    QN_COUNTER(allocs,            one,   "allocations made through the allocator hook") \
    QN_COUNTER(frees,             one,   "allocations given back") \
    QN_COUNTER(populated_bytes,   bytes, "bytes of mapped files that a loading policy read") \
    QN_COUNTER(populate_ns,       ns,    "what that took") \
    QN_COUNTER(read_bytes,        bytes, "bytes read from files by copying, mappings not counted") \
    QN_COUNTER(read_ns,           ns,    "what that took") \
    QN_COUNTER(ahead_bytes,       bytes, "bytes of weights read ahead of their use (qn_engine_options.memory)") \
    QN_COUNTER(dropped_bytes,     bytes, "of these, dropped behind it") \
    QN_COUNTER(ahead_waits,       one,   "nodes that waited for their weights to be read") \
    QN_COUNTER(ahead_wait_ns,     ns,    "what those waits took") \
    QN_COUNTER(written_bytes,     bytes, "bytes written to files") \
    QN_COUNTER(write_ns,          ns,    "what that took") \
    QN_COUNTER(loads,             one,   "models opened") \
    QN_COUNTER(load_bytes,        bytes, "bytes of them that were read or copied; mapped weights are read on use") \
    QN_COUNTER(load_ns,           ns,    "what reading and copying them took") \
    QN_COUNTER(pool_hits,         one,   "tensors whose memory had waited in the context's pool: no allocation")
/* QN_GAUGE(name, unit, "what it is now"); a reset leaves them, but the peak becomes what there is. */
#define QN_GAUGE_ROWS(QN_GAUGE) \
    QN_GAUGE(live_bytes,          bytes, "bytes allocated at present") \
    QN_GAUGE(peak_bytes,          bytes, "highest live_bytes since the last reset") \
    QN_GAUGE(mapped_bytes,        bytes, "bytes of files mapped at present")
#define QN_METRIC_ROWS(QN_METRIC) QN_COUNTER_ROWS(QN_METRIC) QN_GAUGE_ROWS(QN_METRIC)
/* QN_HISTOGRAM(name, "what is timed") */
#define QN_HISTOGRAM_ROWS(QN_HISTOGRAM) \
    QN_HISTOGRAM(graph_run, "one run of a compiled graph") \
    QN_HISTOGRAM(compile,   "a graph planned and compiled") \
    QN_HISTOGRAM(load,      "a model opened") \
    QN_HISTOGRAM(sample,    "a token chosen")
/* QN_RATE(name, bytes, nanoseconds, "what"): in texts, bytes a second since the last reset. */
#define QN_RATE_ROWS(QN_RATE) \
    QN_RATE(read,     read_bytes,      read_ns,     "of files read by copying") \
    QN_RATE(write,    written_bytes,   write_ns,    "of files written") \
    QN_RATE(populate, populated_bytes, populate_ns, "of mapped files read by a loading policy") \
    QN_RATE(load,     load_bytes,      load_ns,     "of models opened")
/* clang-format on */

/* How often something took how long. bucket[i]: at most 2^i microseconds and more than half of that; 0: up to 1 us; the
 * last: all that took longer (67 s). */
#define QN_HISTOGRAM_BUCKETS 28
typedef struct qn_histogram {
    uint64_t count, sum_ns;
    uint64_t bucket[QN_HISTOGRAM_BUCKETS];
} qn_histogram;

typedef struct qn_metrics {
#define QN_METRIC_FIELD(name, unit, text) uint64_t name;
    QN_METRIC_ROWS(QN_METRIC_FIELD)
#undef QN_METRIC_FIELD
#define QN_HISTOGRAM_FIELD(name, text) qn_histogram name;
    QN_HISTOGRAM_ROWS(QN_HISTOGRAM_FIELD)
#undef QN_HISTOGRAM_FIELD
} qn_metrics;

/* What was counted since the last reset. */
QN_API void qn_metrics_snapshot(qn_metrics *out);
/* Both at once: a record that is made meanwhile is in `out` or in what comes after, never lost and never in both. */
QN_API void qn_metrics_take(qn_metrics *out);
/* The same without the numbers. */
QN_API void qn_metrics_reset(void);

/* By operation: how often backends computed it since the last reset, and how long that took. A run's numbers arrive
 * when it ends. */
typedef struct qn_op_metrics {
    const char *op; /* as in qn_node_op_name */
    uint64_t count, ns;
} qn_op_metrics;
/* Rows of the operations that ran at all; returns how many there are and fills the first `max`. */
QN_API int qn_op_metrics_snapshot(qn_op_metrics *out, int max);
/* The same, and begins anew, as qn_metrics_take: those that `out` has no room for go on. */
QN_API int qn_op_metrics_take(qn_op_metrics *out, int max);
QN_API void qn_op_metrics_reset(void);

/* json: {"counters": {name: number}, "gauges": .., "rates": {name: bytes a second, null where nothing was moved},
 * "histograms": {name: {"count", "sum_ns", "buckets": [[upper end in ns, null for the last, count]..]}}, "ops": [{"op",
 * "count", "ns"}..], the dearest first}. prometheus: its text format 0.0.4, names begin with quern_, times are in
 * seconds. */
typedef enum qn_metrics_format { QN_METRICS_json, QN_METRICS_prometheus } qn_metrics_format;
/* The caller frees *out with qn_free. nomem. */
QN_API qn_status qn_metrics_print(qn_metrics_format format, char **out, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
