/* SPDX-License-Identifier: MIT */
/* src/gpu/cuda.c -- the drivers `cuda` (NVIDIA) and `hip` (AMD): their calls are alike but for their names. A device
 * has one stream. Every call sets the device's context first, since threads change. */
#include "gpu/cuda.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <string.h>

/* Numbers of flags that the two have in common. */
enum { STREAM_ALONE = 1, EVENT_WITHOUT_TIME = 2, HOST_FOR_ALL_DEVICES = 1, CAPTURE_THIS_THREAD = 1 };

typedef struct library {
    const qn_cuda_kind *kind;
    qn_cuda_calls call;
    qn_error why; /* status OK: it is there */
} library;

/* ---- a device ---- */

/* Writes whose source may change at once go through slots of pinned memory, in turn. */
enum { SLOTS = 4, SLOT_BYTES = 65536 };

struct qn_gpu_device {
    const library *lib;
    int id;
    bool retained;
    void *context, *stream, *module;
    void *functions[QN_GPU_KERNEL_COUNT]; /* NULL before prepare */
    uint8_t *slots;
    void *slot_free[SLOTS]; /* events */
    int next_slot;
};

#define CHECK(lib, code, name) qn__cuda_check((lib)->kind, code, name, err)
#define TRY(d, member, ...)    QN_TRY(CHECK((d)->lib, (d)->lib->call.member(__VA_ARGS__), #member))
#define ENTER(d)               TRY(d, context_set, (d)->context)

static qn_status describe(const library *lib, int index, int *id, qn_device *out, qn_error *err)
{
    size_t memory = 0;
    int same = 0;
    char name[256] = "";
    QN_TRY(CHECK(lib, lib->call.device_get(id, index), "device_get"));
    QN_TRY(CHECK(lib, lib->call.device_memory(&memory, *id), "device_memory"));
    QN_TRY(CHECK(lib, lib->call.device_name(name, sizeof(name) - 1, *id), "device_name"));
    QN_TRY(CHECK(lib, lib->call.device_attribute(&same, lib->kind->integrated, *id), "device_attribute"));
    *out = (qn_device){.memory_bytes = memory, .integrated = same != 0, .same_bits = true};
    snprintf(out->backend, sizeof(out->backend), "%s:%d", lib->kind->name, index);
    snprintf(out->name, sizeof(out->name), "%.63s", name);
    return QN_OK;
}

static qn_status devices(const library *lib, qn_device *out, int max, int *n, qn_error *err)
{
    enum { NO_DEVICE = 100, INVALID_DEVICE = 101 }; /* the second is what HIP says where there is none */
    int all = 0, id;
    *n = 0;
    if (lib->why.status != QN_OK) {
        if (err) *err = lib->why;
        return lib->why.status;
    }
    const int code = lib->call.init(0);
    if (code == NO_DEVICE || code == INVALID_DEVICE) return QN_OK;
    QN_TRY(CHECK(lib, code, "init"));
    QN_TRY(CHECK(lib, lib->call.device_count(&all), "device_count"));
    if (all > 0 && !qn__cuda_image(lib->kind))
        return QN_FAIL(err, unsupported, "%s: this build has no kernels for it: %s was not there when it was built",
                       lib->kind->name, lib->kind->compilers);
    for (int i = 0; i < all && i < max; i++) QN_TRY(describe(lib, i, &id, &out[(*n)++], err));
    return QN_OK;
}

static void close_device(qn_gpu_device *d)
{
    if (!d) return;
    const qn_cuda_calls *call = &d->lib->call;
    if (d->context) (void)call->context_set(d->context);
    if (d->stream) (void)call->stream_sync(d->stream);
    for (int i = 0; i < SLOTS; i++)
        if (d->slot_free[i]) (void)call->event_destroy(d->slot_free[i]);
    if (d->slots) (void)call->host_free(d->slots);
    if (d->module) (void)call->module_unload(d->module);
    if (d->stream) (void)call->stream_destroy(d->stream);
    if (d->context) (void)call->context_set(NULL);
    if (d->retained) (void)call->context_release(d->id);
    qn__free(d);
}

static qn_status set_up(qn_gpu_device *d, int index, qn_gpu_device_info *info, qn_error *err)
{
    size_t free_bytes = 0, all = 0;
    void *slots = NULL;
    int major = 0;
    QN_TRY(describe(d->lib, index, &d->id, &info->device, err));
    TRY(d, context_retain, &d->context, d->id);
    d->retained = true;
    ENTER(d);
    TRY(d, memory_info, &free_bytes, &all);
    info->largest = all;
    info->free = free_bytes;
    info->captures = true;
    info->warps = true;
    info->doubles = true;
    if (d->lib->kind->major) TRY(d, device_attribute, &major, d->lib->kind->major, d->id);
    info->matrices = major >= 8;
    TRY(d, stream_create, &d->stream, STREAM_ALONE);
    TRY(d, host_alloc, &slots, SLOTS * SLOT_BYTES, HOST_FOR_ALL_DEVICES);
    d->slots = slots;
    for (int i = 0; i < SLOTS; i++) TRY(d, event_create, &d->slot_free[i], EVENT_WITHOUT_TIME);
    TRY(d, module_load, &d->module, qn__cuda_image(d->lib->kind));
    return QN_OK;
}

static qn_status open_device(const library *lib, int index, qn_gpu_device **out, qn_gpu_device_info *info,
                             qn_error *err)
{
    qn_gpu_device *d = qn__calloc(1, sizeof(*d));
    if (!d) return QN_FAIL_NOMEM(err, sizeof(*d));
    d->lib = lib;
    const qn_status status = set_up(d, index, info, err);
    if (status != QN_OK) {
        close_device(d);
        return status;
    }
    *out = d;
    return QN_OK;
}

/* ---- memory ---- An address of the device's is kept as a pointer, which the host never reads through. */

static uint64_t address(const void *memory, uint64_t offset) { return (uint64_t)(uintptr_t)memory + offset; }

static qn_status alloc(qn_gpu_device *d, uint64_t bytes, void **memory, qn_error *err)
{
    uint64_t at = 0;
    ENTER(d);
    TRY(d, alloc, &at, bytes ? (size_t)bytes : 1);
    *memory = (void *)(uintptr_t)at;
    return QN_OK;
}

static void release(qn_gpu_device *d, void *memory)
{
    if (!memory || d->lib->call.context_set(d->context) != 0) return;
    (void)d->lib->call.release(address(memory, 0));
}

static qn_status host_alloc(qn_gpu_device *d, uint64_t bytes, qn_gpu_host *out, qn_error *err)
{
    void *at = NULL;
    ENTER(d);
    TRY(d, host_alloc, &at, bytes ? (size_t)bytes : 1, HOST_FOR_ALL_DEVICES);
    *out = (qn_gpu_host){.at = at, .bytes = bytes, .own = at};
    return QN_OK;
}

static void host_free(qn_gpu_device *d, qn_gpu_host *host)
{
    if (host->own && d->lib->call.context_set(d->context) == 0) (void)d->lib->call.host_free(host->own);
    *host = (qn_gpu_host){0};
}

/* What is small is copied to a slot, so that nobody waits; what is large waits, once. */
static qn_status write_bytes(qn_gpu_device *d, void *memory, uint64_t offset, const void *src, uint64_t bytes,
                             bool stays, qn_error *err)
{
    ENTER(d);
    if (stays || bytes > SLOT_BYTES) {
        TRY(d, write, address(memory, offset), src, (size_t)bytes, d->stream);
        if (!stays) TRY(d, stream_sync, d->stream);
        return QN_OK;
    }
    const int i = d->next_slot;
    uint8_t *slot = d->slots + (size_t)i * SLOT_BYTES;
    TRY(d, event_sync, d->slot_free[i]); /* never recorded: done */
    memcpy(slot, src, (size_t)bytes);
    TRY(d, write, address(memory, offset), slot, (size_t)bytes, d->stream);
    TRY(d, event_record, d->slot_free[i], d->stream);
    d->next_slot = (i + 1) % SLOTS;
    return QN_OK;
}

static qn_status read_bytes(qn_gpu_device *d, void *memory, uint64_t offset, void *dst, uint64_t bytes, qn_error *err)
{
    ENTER(d);
    TRY(d, read, dst, address(memory, offset), (size_t)bytes, d->stream);
    TRY(d, stream_sync, d->stream);
    return QN_OK;
}

static qn_status copy_bytes(qn_gpu_device *d, void *to, uint64_t to_at, void *from, uint64_t from_at, uint64_t bytes,
                            qn_error *err)
{
    ENTER(d);
    TRY(d, copy, address(to, to_at), address(from, from_at), (size_t)bytes, d->stream);
    return QN_OK;
}

/* ---- events ---- */

static qn_status event_create(qn_gpu_device *d, void **event, qn_error *err)
{
    ENTER(d);
    TRY(d, event_create, event, EVENT_WITHOUT_TIME);
    return QN_OK;
}

static void event_destroy(qn_gpu_device *d, void *event)
{
    if (event && d->lib->call.context_set(d->context) == 0) (void)d->lib->call.event_destroy(event);
}

static qn_status event_record(qn_gpu_device *d, void *event, qn_error *err)
{
    ENTER(d);
    TRY(d, event_record, event, d->stream);
    return QN_OK;
}

static qn_status event_sync(qn_gpu_device *d, void *event, qn_error *err)
{
    ENTER(d);
    TRY(d, event_sync, event);
    return QN_OK;
}

static qn_status event_wait(qn_gpu_device *waits, qn_gpu_device *d, void *event, qn_error *err)
{
    (void)d;
    ENTER(waits);
    TRY(waits, stream_wait, waits->stream, event, 0);
    return QN_OK;
}

/* ---- kernels ---- */

static qn_status prepare(qn_gpu_device *d, int kernel, qn_error *err)
{
    if (d->functions[kernel]) return QN_OK;
    ENTER(d);
    TRY(d, module_function, &d->functions[kernel], d->module, qn__gpu_kernel_name(kernel));
    return QN_OK;
}

static qn_status launch(qn_gpu_device *d, const qn_gpu_launch *l, qn_error *err)
{
    enum { MOST_GROUPS = 0x7fffffff };
    uint64_t at[QN_GPU_MAX_VALUES], offset[QN_GPU_MAX_VALUES];
    uint32_t room = l->room;
    _Alignas(16) uint8_t sizes[QN_GPU_MAX_SIZES];
    void *parameters[2 * QN_GPU_MAX_VALUES + 2];
    int n = 0;
    for (int i = 0; i < l->n_values; i++) {
        at[i] = address(l->memory[i], 0);
        offset[i] = l->offset[i];
        parameters[n++] = &at[i];
        parameters[n++] = &offset[i];
    }
    memcpy(sizes, l->sizes, l->n_sizes);
    parameters[n++] = sizes;
    parameters[n] = &room;
    if (l->n_groups > MOST_GROUPS)
        return QN_FAIL(err, limit, "%s: %s in %llu groups; a device takes at most %d", d->lib->kind->name,
                       qn__gpu_kernel_name(l->kernel), (unsigned long long)l->n_groups, MOST_GROUPS);
    ENTER(d);
    TRY(d, launch, d->functions[l->kernel], (unsigned)l->n_groups, 1, 1, l->width, 1, 1, l->room, d->stream, parameters,
        NULL);
    return QN_OK;
}

static qn_status capture_begin(qn_gpu_device *d, qn_error *err)
{
    ENTER(d);
    TRY(d, capture_begin, d->stream, CAPTURE_THIS_THREAD);
    return QN_OK;
}

static qn_status capture_end(qn_gpu_device *d, void **graph, qn_error *err)
{
    void *noted = NULL;
    ENTER(d);
    TRY(d, capture_end, d->stream, &noted);
    const int code = d->lib->call.exec_create(graph, noted, 0);
    (void)d->lib->call.graph_destroy(noted);
    return CHECK(d->lib, code, "exec_create");
}

static qn_status replay(qn_gpu_device *d, void *graph, qn_error *err)
{
    ENTER(d);
    TRY(d, exec_launch, graph, d->stream);
    return QN_OK;
}

static void graph_destroy(qn_gpu_device *d, void *graph)
{
    if (graph && d->lib->call.context_set(d->context) == 0) (void)d->lib->call.exec_destroy(graph);
}

static qn_status finish(qn_gpu_device *d, qn_error *err)
{
    ENTER(d);
    TRY(d, stream_sync, d->stream);
    return QN_OK;
}

/* ---- the two ---- */

#define DRIVER(NAME, dlpack) \
    static library NAME##_library = {.kind = &qn__##NAME##_kind}; \
    static void NAME##_load(void) \
    { \
        (void)qn__cuda_load(&qn__##NAME##_kind, qn__##NAME##_kind.files, &NAME##_library.call, &NAME##_library.why); \
    } \
    static qn_status NAME##_devices(qn_device *out, int max, int *n, qn_error *err) \
    { \
        static qn_once once; \
        qn__once(&once, NAME##_load); \
        return devices(&NAME##_library, out, max, n, err); \
    } \
    static qn_status NAME##_open(int index, qn_gpu_device **out, qn_gpu_device_info *info, qn_error *err) \
    { \
        return open_device(&NAME##_library, index, out, info, err); \
    } \
    static const qn_gpu_driver NAME##_driver = {.name = #NAME, \
                                                .devices = NAME##_devices, \
                                                .open = NAME##_open, \
                                                .close = close_device, \
                                                .alloc = alloc, \
                                                .free = release, \
                                                .host_alloc = host_alloc, \
                                                .host_free = host_free, \
                                                .write = write_bytes, \
                                                .read = read_bytes, \
                                                .copy = copy_bytes, \
                                                .event_create = event_create, \
                                                .event_destroy = event_destroy, \
                                                .event_record = event_record, \
                                                .event_sync = event_sync, \
                                                .event_wait = event_wait, \
                                                .prepare = prepare, \
                                                .launch = launch, \
                                                .capture_begin = capture_begin, \
                                                .capture_end = capture_end, \
                                                .replay = replay, \
                                                .graph_destroy = graph_destroy, \
                                                .finish = finish}; \
    static qn_status NAME##_backend(const qn_backend_options *options, qn_backend **out, qn_error *err); \
    const qn_backend_type qn__backend_##NAME = {.name = #NAME, \
                                                .devices = NAME##_devices, \
                                                .open = NAME##_backend, \
                                                .dl_type = dlpack, \
                                                .dl_is_address = true, \
                                                QN_GPU_BACKEND_MEMBERS}; \
    static qn_status NAME##_backend(const qn_backend_options *options, qn_backend **out, qn_error *err) \
    { \
        return qn__gpu_open(&qn__backend_##NAME, &NAME##_driver, options, out, err); \
    }
DRIVER(cuda, 2) /* kDLCUDA */
DRIVER(hip, 10) /* kDLROCM */
