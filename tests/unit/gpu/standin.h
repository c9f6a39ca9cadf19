/* SPDX-License-Identifier: MIT */
/* tests/unit/gpu/standin.h -- a stand-in for a driver that computes nothing: it counts and checks every call (ranges,
 * what is alive, captures), remembers launches, and call number fail_at fails. Memory is real. */
#ifndef QN_TEST_STANDIN_H
#define QN_TEST_STANDIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

enum { MAX_LAUNCHES = 64, STANDIN_LARGEST = 1 << 20 };

struct qn_gpu_device {
    int n_memory, n_hosts, n_events, n_graphs;                                                           /* alive */
    int n_launches, n_prepared, n_finished, n_writes, n_sent, n_reads, n_copies, n_captured, n_replayed; /* so far */
    int calls, fail_at; /* call number fail_at fails; 0: none does */
    qn_status how;      /* it fails; 0: unsupported */
    bool captures, doubles, capturing;
    uint64_t free;
    qn_gpu_launch launches[MAX_LAUNCHES];
};
static qn_gpu_device device;

static qn_status called(qn_error *err)
{
    if (++device.calls != device.fail_at) return QN_OK;
    if (device.how == QN_STATUS_lost) return QN_FAIL(err, lost, "stand-in: call %d fails: it is gone", device.calls);
    if (device.how == QN_STATUS_nomem) return QN_FAIL(err, nomem, "stand-in: call %d fails for memory", device.calls);
    return QN_FAIL(err, unsupported, "stand-in: call %d fails", device.calls);
}

static inline int alive(void) { return device.n_memory + device.n_hosts + device.n_events + device.n_graphs; }

/* What was allocated knows its size. */
typedef struct standin_memory {
    uint64_t bytes;
    uint8_t at[];
} standin_memory;

static inline uint8_t *within(void *memory, uint64_t offset, uint64_t n)
{
    standin_memory *m = memory;
    assert_true(offset <= m->bytes && n <= m->bytes - offset);
    return m->at + offset;
}

static inline qn_status devices(qn_device *out, int max, int *n, qn_error *err)
{
    (void)err;
    *n = max > 2 ? 2 : max;
    for (int i = 0; i < *n; i++) out[i] = (qn_device){.backend = "standin:0", .name = "stand-in"};
    return QN_OK;
}
static inline qn_status open_device(int index, qn_gpu_device **out, qn_gpu_device_info *info, qn_error *err)
{
    (void)index;
    QN_TRY(called(err));
    *info = (qn_gpu_device_info){.largest = STANDIN_LARGEST,
                                 .captures = device.captures,
                                 .doubles = device.doubles,
                                 .free = device.free,
                                 .device = {.memory_bytes = UINT64_C(1) << 30}};
    *out = &device;
    return QN_OK;
}
static inline void close_device(qn_gpu_device *d)
{
    (void)d;
    assert_int_equal(alive(), 0);
    assert_false(device.capturing);
}
static inline qn_status alloc(qn_gpu_device *d, uint64_t bytes, void **memory, qn_error *err)
{
    QN_TRY(called(err));
    assert_false(d->capturing);
    standin_memory *m = calloc(1, sizeof(*m) + bytes + 1);
    assert_non_null(m);
    m->bytes = bytes;
    *memory = m;
    d->n_memory++;
    return QN_OK;
}
static inline void release(qn_gpu_device *d, void *memory)
{
    d->n_memory--;
    free(memory);
}
static inline qn_status host_alloc(qn_gpu_device *d, uint64_t bytes, qn_gpu_host *out, qn_error *err)
{
    QN_TRY(called(err));
    *out = (qn_gpu_host){.at = calloc(1, bytes + 1), .bytes = bytes};
    assert_non_null(out->at);
    d->n_hosts++;
    return QN_OK;
}
static inline void host_free(qn_gpu_device *d, qn_gpu_host *host)
{
    d->n_hosts--;
    free(host->at);
}
static inline qn_status write_bytes(qn_gpu_device *d, void *memory, uint64_t offset, const void *src, uint64_t n,
                                    bool stays, qn_error *err)
{
    QN_TRY(called(err));
    assert_false(d->capturing);
    memcpy(within(memory, offset, n), src, n);
    *(stays ? &d->n_sent : &d->n_writes) += 1;
    return QN_OK;
}
static inline qn_status read_bytes(qn_gpu_device *d, void *memory, uint64_t offset, void *dst, uint64_t n,
                                   qn_error *err)
{
    QN_TRY(called(err));
    assert_false(d->capturing);
    memcpy(dst, within(memory, offset, n), n);
    d->n_reads++;
    return QN_OK;
}
static inline qn_status copy_bytes(qn_gpu_device *d, void *to, uint64_t to_at, void *from, uint64_t from_at, uint64_t n,
                                   qn_error *err)
{
    QN_TRY(called(err));
    memcpy(within(to, to_at, n), within(from, from_at, n), n);
    d->n_copies++;
    return QN_OK;
}
static inline qn_status event_create(qn_gpu_device *d, void **event, qn_error *err)
{
    QN_TRY(called(err));
    *event = calloc(1, sizeof(int));
    assert_non_null(*event);
    d->n_events++;
    return QN_OK;
}
static inline void event_destroy(qn_gpu_device *d, void *event)
{
    d->n_events--;
    free(event);
}
static inline qn_status event_record(qn_gpu_device *d, void *event, qn_error *err)
{
    QN_TRY(called(err));
    assert_false(d->capturing);
    *(int *)event += 1;
    return QN_OK;
}
static inline qn_status event_sync(qn_gpu_device *d, void *event, qn_error *err)
{
    (void)event;
    assert_false(d->capturing);
    return called(err);
}
static inline qn_status prepare(qn_gpu_device *d, int kernel, qn_error *err)
{
    (void)kernel;
    QN_TRY(called(err));
    d->n_prepared++;
    return QN_OK;
}
static inline qn_status launch(qn_gpu_device *d, const qn_gpu_launch *l, qn_error *err)
{
    QN_TRY(called(err));
    for (int i = 0; i < l->n_values; i++) (void)within(l->memory[i], l->offset[i], 1);
    d->launches[d->n_launches++ % MAX_LAUNCHES] = *l;
    return QN_OK;
}
static inline qn_status capture_begin(qn_gpu_device *d, qn_error *err)
{
    QN_TRY(called(err));
    assert_false(d->capturing);
    d->capturing = true;
    return QN_OK;
}
static inline qn_status capture_end(qn_gpu_device *d, void **graph, qn_error *err)
{
    assert_true(d->capturing);
    d->capturing = false;
    QN_TRY(called(err));
    *graph = calloc(1, 1);
    assert_non_null(*graph);
    d->n_graphs++;
    d->n_captured++;
    return QN_OK;
}
static inline qn_status replay(qn_gpu_device *d, void *graph, qn_error *err)
{
    QN_TRY(called(err));
    assert_non_null(graph);
    d->n_replayed++;
    return QN_OK;
}
static inline void graph_destroy(qn_gpu_device *d, void *graph)
{
    d->n_graphs--;
    free(graph);
}
static inline qn_status finish(qn_gpu_device *d, qn_error *err)
{
    d->n_finished++;
    assert_false(d->capturing);
    return called(err);
}
static const qn_gpu_driver driver = {.name = "standin",
                                     .devices = devices,
                                     .open = open_device,
                                     .close = close_device,
                                     .alloc = alloc,
                                     .free = release,
                                     .host_alloc = host_alloc,
                                     .host_free = host_free,
                                     .write = write_bytes,
                                     .read = read_bytes,
                                     .copy = copy_bytes,
                                     .event_create = event_create,
                                     .event_destroy = event_destroy,
                                     .event_record = event_record,
                                     .event_sync = event_sync,
                                     .prepare = prepare,
                                     .launch = launch,
                                     .capture_begin = capture_begin,
                                     .capture_end = capture_end,
                                     .replay = replay,
                                     .graph_destroy = graph_destroy,
                                     .finish = finish};
static inline qn_status open_backend(const qn_backend_options *options, qn_backend **out, qn_error *err);
static const qn_backend_type type = {.name = "standin", .open = open_backend, QN_GPU_BACKEND_MEMBERS};
static inline qn_status open_backend(const qn_backend_options *options, qn_backend **out, qn_error *err)
{
    return qn__gpu_open(&type, &driver, options, out, err);
}

#endif
