/* SPDX-License-Identifier: MIT */
/* src/gpu/device.c -- a device as a backend: opening it, its memory, transfers, events, and noticing that it is gone.
 */
#include "gpu/gpu.h"
#include "backend/values.h"
#include "base/str.h"
#include "base/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernels read bytes, halves and floats at their own alignment; values of activations begin at cache lines. */
enum { ALIGNMENT = 256 };

void qn__gpu_close(qn_backend *be)
{
    qn_gpu *gpu = (qn_gpu *)be;
    if (!gpu) return;
    QN_ASSERT(gpu->used == 0 && gpu->n_hosts == 0);
    if (gpu->device) gpu->driver->close(gpu->device);
    qn__free(gpu->hosts);
    qn__free(gpu);
}

qn_status qn__gpu_open(const qn_backend_type *type, const qn_gpu_driver *driver, const qn_backend_options *options,
                       qn_backend **out, qn_error *err)
{
    int n = 0, index = 0;
    const char *which = options && options->which ? options->which : "0";
    char quoted[128], *end = NULL;
    const unsigned long number = strtoul(which, &end, 10);
    if (*which < '0' || *which > '9' || *end || number >= QN_GPU_MAX_DEVICES)
        return QN_FAIL(err, invalid, "%s: device \"%s\" is no number: %s:0 is the first", type->name,
                       qn__str_quote(quoted, sizeof(quoted), which, strlen(which)), type->name);
    index = (int)number;
    qn_device found[QN_GPU_MAX_DEVICES];
    QN_TRY(driver->devices(found, QN_GPU_MAX_DEVICES, &n, err));
    if (index >= n)
        return QN_FAIL(err, unsupported, "%s: device %d is not there: %d of them were found%s", type->name, index, n,
                       n ? ", and numbers begin at 0; quern doctor lists them"
                         : " (its library is there; does the device's own driver miss?)");
    qn_gpu *gpu = qn__calloc(1, sizeof(*gpu));
    if (!gpu) return QN_FAIL_NOMEM(err, sizeof(*gpu));
    gpu->base = (qn_backend){.type = type, .alignment = ALIGNMENT};
    gpu->driver = driver;
    gpu->index = index;
    gpu->limit = options ? options->memory_limit : 0;
    const qn_status status = driver->open(index, &gpu->device, &gpu->info, err);
    if (status != QN_OK) {
        qn__gpu_close(&gpu->base);
        return status;
    }
    if (options && options->name)
        snprintf(gpu->base.name, sizeof(gpu->base.name), "%s", options->name);
    else
        snprintf(gpu->base.name, sizeof(gpu->base.name), "%s:%d", type->name, index);
    *out = &gpu->base;
    return QN_OK;
}

/* ---- a device that is gone ---- */

qn_status qn__gpu_noted(qn_gpu *gpu, qn_status status, qn_error *err)
{
    if (status != QN_STATUS_lost || gpu->lost.status != QN_OK) return status;
    if (err) gpu->lost = *err;
    if (!err) (void)QN_FAIL(&gpu->lost, lost, "%s: the device is gone; open the model again", gpu->base.name);
    return status;
}

qn_status qn__gpu_there(const qn_gpu *gpu, qn_error *err)
{
    if (gpu->lost.status != QN_OK && err) *err = gpu->lost;
    return gpu->lost.status;
}

/* A call that waits for the device. */
static qn_status waited(int64_t since, qn_status status)
{
    QN_COUNT(device_wait_ns, qn__now_ns() - since);
    return status;
}

/* A call of the driver on a device that is there. */
#define CALL(gpu, function, ...) \
    qn__gpu_there(gpu, err) != QN_OK ? (gpu)->lost.status \
                                     : qn__gpu_noted(gpu, (gpu)->driver->function((gpu)->device, __VA_ARGS__), err)

qn_status qn__gpu_sync(qn_backend *be, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)be;
    const int64_t since = qn__now_ns();
    QN_TRY(qn__gpu_there(gpu, err));
    return waited(since, qn__gpu_noted(gpu, gpu->driver->finish(gpu->device, err), err));
}

/* ---- memory ---- */

static uint64_t left(const qn_gpu *gpu)
{
    uint64_t all = gpu->limit ? gpu->limit : gpu->info.device.memory_bytes;
    if (all && all < gpu->used) return 0;
    all -= gpu->used;
    /* free is what it said when it was opened: before there was a buffer */
    if (gpu->info.free && gpu->info.free < gpu->used + all)
        all = gpu->info.free > gpu->used ? gpu->info.free - gpu->used : 0;
    return all;
}

qn_backend_memory qn__gpu_memory(const qn_backend *be)
{
    const qn_gpu *gpu = (const qn_gpu *)be;
    return (qn_backend_memory){.used = gpu->used, .left = left(gpu), .largest = gpu->info.largest};
}

static qn_status too_large(const qn_gpu *gpu, uint64_t bytes, uint64_t has, const char *what, qn_error *err)
{
    char wanted[32], there[32];
    return QN_FAIL(err, nomem,
                   "%s: %s of memory %s, it has %s; put fewer layers there (--gpu-layers), or take a "
                   "smaller context, batch or KV type",
                   gpu->base.name, qn__str_bytes(wanted, sizeof(wanted), bytes), what,
                   qn__str_bytes(there, sizeof(there), has));
}

qn_status qn__gpu_buffer_create(qn_backend *be, uint64_t bytes, qn_buffer **out, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)be;
    if (bytes > gpu->info.largest) return too_large(gpu, bytes, gpu->info.largest, "are needed in one piece", err);
    if (gpu->limit && (bytes > gpu->limit || gpu->used > gpu->limit - bytes))
        return too_large(gpu, bytes, gpu->used < gpu->limit ? gpu->limit - gpu->used : 0, "more are needed", err);
    qn_gpu_buffer *b = qn__calloc(1, sizeof(*b));
    if (!b) return QN_FAIL_NOMEM(err, sizeof(*b));
    b->base = (qn_buffer){.backend = be, .bytes = bytes};
    qn_error why = {0};
    qn_status status = qn__gpu_there(gpu, err);
    if (status == QN_OK) {
        status = qn__gpu_noted(gpu, gpu->driver->alloc(gpu->device, bytes, &b->memory, &why), &why);
        if (status == QN_STATUS_nomem)
            (void)too_large(gpu, bytes, left(gpu), "more are needed", err);
        else if (status != QN_OK && err)
            *err = why;
    }
    if (status != QN_OK) {
        qn__free(b);
        return status;
    }
    gpu->used += bytes;
    QN_COUNT(device_allocs, 1);
    *out = &b->base;
    return QN_OK;
}

void qn__gpu_buffer_destroy(qn_buffer *buffer)
{
    if (!buffer) return;
    qn_gpu *gpu = (qn_gpu *)buffer->backend;
    const qn_gpu_buffer *b = (const qn_gpu_buffer *)buffer;
    if (!b->foreign || gpu->driver->adopt) gpu->driver->free(gpu->device, b->memory);
    if (!b->foreign) gpu->used -= buffer->bytes;
    qn__free(buffer);
}

/* ---- memory that others know ---- */

int32_t qn__gpu_dl_index(const qn_backend *be) { return ((const qn_gpu *)be)->index; }
void *qn__gpu_dl_memory(const qn_buffer *buffer) { return ((const qn_gpu_buffer *)buffer)->memory; }

qn_status qn__gpu_dl_wrap(qn_backend *be, void *memory, uint64_t bytes, qn_buffer **out, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)be;
    qn_gpu_buffer *b = qn__calloc(1, sizeof(*b));
    if (!b) return QN_FAIL_NOMEM(err, sizeof(*b));
    *b = (qn_gpu_buffer){.base = {.backend = be, .bytes = bytes}, .memory = memory, .foreign = true};
    qn_status status = qn__gpu_there(gpu, err);
    if (status == QN_OK && gpu->driver->adopt) status = CALL(gpu, adopt, memory, bytes, &b->memory, err);
    if (status != QN_OK) {
        qn__free(b);
        return status;
    }
    *out = &b->base;
    return QN_OK;
}

qn_status qn__gpu_host_alloc(qn_backend *be, uint64_t bytes, void **out, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)be;
    if (gpu->n_hosts == gpu->cap_hosts) {
        const int cap = 2 * gpu->cap_hosts + 8;
        qn_gpu_host *more = qn__realloc(gpu->hosts, (size_t)cap * sizeof(*more));
        if (!more) return QN_FAIL_NOMEM(err, (size_t)cap * sizeof(*more));
        gpu->hosts = more;
        gpu->cap_hosts = cap;
    }
    QN_TRY(CALL(gpu, host_alloc, bytes, &gpu->hosts[gpu->n_hosts], err));
    *out = gpu->hosts[gpu->n_hosts++].at;
    QN_COUNT(device_allocs, 1);
    return QN_OK;
}

void qn__gpu_host_free(qn_backend *be, void *memory)
{
    qn_gpu *gpu = (qn_gpu *)be;
    for (int i = 0; i < gpu->n_hosts; i++) {
        if (gpu->hosts[i].at != memory) continue;
        gpu->driver->host_free(gpu->device, &gpu->hosts[i]);
        gpu->hosts[i] = gpu->hosts[--gpu->n_hosts];
        return;
    }
}

/* ---- transfers ---- */

static void *memory_of(const qn_buffer *buffer) { return ((const qn_gpu_buffer *)buffer)->memory; }

static qn_status write_to(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, bool stays,
                          qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)buffer->backend;
    QN_TRY(qn__buffer_check_range(buffer, offset, bytes, err));
    if (bytes == 0) return QN_OK;
    QN_COUNT(uploads, 1);
    QN_COUNT(upload_bytes, bytes);
    return CALL(gpu, write, memory_of(buffer), offset, src, bytes, stays, err);
}

qn_status qn__gpu_upload(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err)
{
    return write_to(buffer, offset, src, bytes, false, err);
}

qn_status qn__gpu_send(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err)
{
    return write_to(buffer, offset, src, bytes, true, err);
}

qn_status qn__gpu_download(const qn_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)buffer->backend;
    QN_TRY(qn__buffer_check_range(buffer, offset, bytes, err));
    if (bytes == 0) return QN_OK;
    QN_COUNT(downloads, 1);
    QN_COUNT(download_bytes, bytes);
    const int64_t since = qn__now_ns();
    return waited(since, CALL(gpu, read, memory_of(buffer), offset, dst, bytes, err));
}

qn_status qn__gpu_copy(qn_buffer *to, uint64_t to_at, const qn_buffer *from, uint64_t from_at, uint64_t bytes,
                       qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)to->backend;
    if (from->backend != to->backend)
        return QN_FAIL(err, unsupported, "%s and %s reach each other through the host", from->backend->name,
                       to->backend->name);
    QN_TRY(qn__buffer_check_range(to, to_at, bytes, err));
    QN_TRY(qn__buffer_check_range(from, from_at, bytes, err));
    return bytes ? CALL(gpu, copy, memory_of(to), to_at, memory_of(from), from_at, bytes, err) : QN_OK;
}

/* ---- events ---- */

typedef struct gpu_event {
    qn_event base;
    void *own;
} gpu_event;

qn_status qn__gpu_event_create(qn_backend *be, qn_event **out, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)be;
    gpu_event *e = qn__calloc(1, sizeof(*e));
    if (!e) return QN_FAIL_NOMEM(err, sizeof(*e));
    e->base.backend = be;
    const qn_status status = CALL(gpu, event_create, &e->own, err);
    if (status != QN_OK)
        qn__free(e);
    else
        *out = &e->base;
    return status;
}

void qn__gpu_event_destroy(qn_event *event)
{
    if (!event) return;
    qn_gpu *gpu = (qn_gpu *)event->backend;
    gpu->driver->event_destroy(gpu->device, ((gpu_event *)event)->own);
    qn__free(event);
}

qn_status qn__gpu_event_record(qn_event *event, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)event->backend;
    return CALL(gpu, event_record, ((gpu_event *)event)->own, err);
}

qn_status qn__gpu_event_wait(qn_event *event, qn_error *err)
{
    qn_gpu *gpu = (qn_gpu *)event->backend;
    const int64_t since = qn__now_ns();
    return waited(since, CALL(gpu, event_sync, ((gpu_event *)event)->own, err));
}
