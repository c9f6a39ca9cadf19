/* SPDX-License-Identifier: MIT */
/* tests/standin/cuda.c -- a stand-in for CUDA's driver, or HIP's (STANDIN_HIP), that computes on the processor. What is
 * asked of a stream is done as late as the rules allow: when somebody waits. Memory of devices has addresses that the
 * host can't read, with a guard page behind it. Each device has a context of its own, and what was made in one is of no
 * use in another. Each call checks its handles, the thread's context, ranges, and what a capture forbids; a breach is
 * counted and told. */
#include "kernels.h"
#include "standin.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define API __attribute__((visibility("default")))
enum { OK, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, BROKEN = 719, FORBIDDEN = 900 };
static const uint64_t FAR = 1ull << 62; /* added to addresses of devices */

static standin now = {.devices = 1, .memory_bytes = 1ull << 30};
API standin *standin_state(void) { return &now; }
static const char *told_of[512]; /* kernels that were launched */
API int standin_launched(const char *name)
{
    for (int i = 0; told_of[i]; i++)
        if (strcmp(told_of[i], name) == 0) return 1;
    return 0;
}
API void standin_reset(void)
{
    now = (standin){.devices = 1, .memory_bytes = 1ull << 30, .live = now.live, .live_bytes = now.live_bytes};
}

#define WRONG(...) (now.n_wrong++ ? INVALID : (snprintf(now.wrong, sizeof(now.wrong), __VA_ARGS__), INVALID))

/* ---- objects ---- */

typedef enum kind { CONTEXT, STREAM, EVENT, MODULE, FUNCTION, GRAPH, EXEC, MEMORY, HOST, N_KINDS } kind;
static const char *const kind_names[N_KINDS] = {"context", "stream", "event",  "module",     "function",
                                                "graph",   "exec",   "memory", "host memory"};

typedef struct op op;
typedef struct object {
    kind kind;
    int device; /* whose context it was made in */
    uint64_t bytes;
    char *at;  /* of memory */
    op *first; /* of a stream or graph */
    op **last; /* where the next one goes */
    struct object *capturing, *stream;
    op *record; /* of an event: not done yet; NULL: done */
    const standin_kernel *kernel;
    struct object *next;
} object;
static object *live;
enum { MAX_DEVICES = 8, FIRST_DEVICE = 40 };
static struct {
    object *context;
    int uses;
    uint64_t bytes; /* of its memory */
} of_device[MAX_DEVICES];
static __thread object *thread_context;
static int device_now(void) { return thread_context ? thread_context->device : -1; }

struct op {
    enum { LAUNCH, WRITE, READ, COPY, RECORD, WAIT, REPLAY } what;
    object *object; /* kernel's function, event, graph */
    uint64_t to, from, bytes;
    char *bytes_now; /* of a write from memory that may change */
    unsigned groups, width, room;
    void **arguments; /* with what they point to, one block */
    op *next;
};

static object *make(kind k, uint64_t bytes)
{
    object *o = calloc(1, sizeof(*o));
    if (!o) return NULL;
    *o = (object){.kind = k, .device = device_now(), .bytes = bytes, .next = live};
    o->last = &o->first;
    live = o;
    now.live++;
    return o;
}

static object *find(const void *handle, kind k)
{
    for (object *o = live; o; o = o->next)
        if (o == handle && o->kind == k) return o;
    (void)WRONG("a handle that is no %s", kind_names[k]);
    return NULL;
}

/* What is used in the context that it was made in: all but events, which others wait for. */
static object *find_here(const void *handle, kind k)
{
    object *o = find(handle, k);
    if (!o || o->device == device_now()) return o;
    (void)WRONG("a %s of device %d is used in the context of device %d", kind_names[k], o->device, device_now());
    return NULL;
}

/* The memory of a device that has [at, at + bytes). */
static char *reach(int device, uint64_t at, uint64_t bytes)
{
    for (object *o = live; o; o = o->next)
        if (o->kind == MEMORY && at - FAR >= (uintptr_t)o->at && at - FAR + bytes <= (uintptr_t)o->at + o->bytes) {
            if (o->device == device) return o->at + (at - FAR - (uintptr_t)o->at);
            (void)WRONG("memory of device %d is used by device %d", o->device, device);
            return NULL;
        }
    (void)WRONG("%llu bytes at an address that is not a device's", (unsigned long long)bytes);
    return NULL;
}

static bool is_pinned(const void *p)
{
    for (object *o = live; o; o = o->next)
        if (o->kind == HOST && (const char *)p >= o->at && (const char *)p < o->at + o->bytes) return true;
    return false;
}

static void free_ops(op *o)
{
    for (op *next; o; o = next) {
        next = o->next;
        free(o->arguments);
        free(o->bytes_now);
        free(o);
    }
}

static int drop(object *o)
{
    object **p = &live;
    if (!o) return INVALID;
    while (*p != o) p = &(*p)->next;
    *p = o->next;
    free_ops(o->first);
    now.live--;
    free(o);
    return OK;
}

/* ---- streams ---- */

static void run_until(object *stream, const op *last);

#ifndef STANDIN_COMPUTES_NOT
static const char *compute(int device, const op *o)
{
    const standin_kernel *k = o->object->kernel;
    char *at[16];
    void *arguments[2 * 16 + 2];
    const int n = *k->values;
    memcpy(arguments, o->arguments, (size_t)(2 * n + 2) * sizeof(void *));
    for (int i = 0; i < n; i++) {
        at[i] = reach(device, *(const uint64_t *)o->arguments[2 * i], 1);
        if (!at[i]) return "a buffer that is not there any more";
        arguments[2 * i] = &at[i];
    }
    return standin_run(k, o->groups, o->width, o->room, arguments);
}
#else
static const char *compute(int device, const op *o) { return device >= 0 && o->object ? NULL : "no kernel"; }
#endif

static void run_op(int device, const op *o)
{
    const char *wrong = NULL;
    char *to, *from;
    switch (o->what) {
    case LAUNCH:
        wrong = compute(device, o);
        if (wrong) (void)WRONG("%s: %s", o->object->kernel->name, wrong);
        break;
    case WRITE:
        if ((to = reach(device, o->to, o->bytes)))
            memcpy(to, o->bytes_now ? o->bytes_now : (const char *)(uintptr_t)o->from, o->bytes);
        break;
    case READ:
        if ((from = reach(device, o->from, o->bytes))) memcpy((char *)(uintptr_t)o->to, from, o->bytes);
        break;
    case COPY:
        if ((to = reach(device, o->to, o->bytes)) && (from = reach(device, o->from, o->bytes))) {
            if (to < from + o->bytes && from < to + o->bytes) (void)WRONG("a copy whose ranges overlap");
            memmove(to, from, o->bytes);
        }
        break;
    case RECORD:
        if (o->object->record == o) o->object->record = NULL;
        break;
    case WAIT:
        if (o->object->record) run_until(o->object->stream, o->object->record);
        break;
    case REPLAY:
        for (const op *i = o->object->first; i; i = i->next) run_op(device, i);
        break;
    }
}

/* Up to `last`, or all of it. */
static void run_until(object *stream, const op *last)
{
    for (op *o = stream->first; o; o = stream->first) {
        const bool end = o == last;
        stream->first = o->next;
        if (!o->next) stream->last = &stream->first;
        run_op(stream->device, o);
        o->next = NULL;
        free_ops(o);
        if (end) return;
    }
}

static int add(object *stream, op o)
{
    op *copy = malloc(sizeof(*copy));
    if (!stream || !copy) return free(copy), INVALID;
    *copy = o;
    copy->next = NULL;
    object *to = stream->capturing ? stream->capturing : stream;
    if (stream->capturing && o.what != LAUNCH) (void)WRONG("a capture of something else than launches");
    *to->last = copy;
    to->last = &copy->next;
    if (o.what == RECORD) o.object->record = copy;
    return OK;
}

/* ---- calls ---- */

static object *capture; /* a stream of this process that captures now */
static bool fails(int *code)
{
    if (++now.calls != now.fail_at) return false;
    *code = now.fail_code ? now.fail_code : BROKEN;
    return true;
}
#define BEGIN() \
    int code_; \
    if (fails(&code_)) return code_
#define NEEDS_CONTEXT() \
    BEGIN(); \
    if (!thread_context) return WRONG("%s: no context is set", __func__)
#define NOT_IN_CAPTURE() \
    NEEDS_CONTEXT(); \
    if (capture) return WRONG("%s: while a stream captures", __func__), FORBIDDEN

#ifdef STANDIN_HIP
#define CALL(cuda, hip) API int hip
#else
#define CALL(cuda, hip) API int cuda
#endif
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static bool is_device(int device)
{
    return device >= FIRST_DEVICE && device < FIRST_DEVICE + now.devices && device < FIRST_DEVICE + MAX_DEVICES;
}

CALL(cuInit, hipInit)(unsigned flags)
{
    BEGIN();
    return flags ? INVALID : now.devices ? OK : NO_DEVICE;
}
CALL(cuDeviceGetCount, hipGetDeviceCount)(int *n)
{
    BEGIN();
    *n = now.devices;
    return OK;
}
CALL(cuDeviceGet, hipDeviceGet)(int *device, int index)
{
    BEGIN();
    *device = FIRST_DEVICE + index;
    return !is_device(*device) ? WRONG("device %d", index) : OK;
}
CALL(cuDeviceGetName, hipDeviceGetName)(char *name, int len, int device)
{
    BEGIN();
    snprintf(name, (size_t)len, "stand-in %d", device - FIRST_DEVICE);
    return OK;
}
CALL(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t *bytes, int device)
{
    BEGIN();
    *bytes = now.memory_bytes;
    return !is_device(device) ? WRONG("device %d", device) : OK;
}
CALL(cuDeviceGetAttribute, hipDeviceGetAttribute)(int *value, int which, int device)
{
    BEGIN();
    *value = which == 75 ? 9 : 0; /* the compute capability's first number */
    return !is_device(device) || which <= 0 ? WRONG("attribute %d of device %d", which, device) : OK;
}
CALL(cuDevicePrimaryCtxRetain, hipDevicePrimaryCtxRetain)(void **context, int device)
{
    BEGIN();
    if (!is_device(device)) return WRONG("device %d", device);
    const int i = device - FIRST_DEVICE;
    if (!of_device[i].context && (of_device[i].context = make(CONTEXT, 0))) of_device[i].context->device = i;
    of_device[i].uses++;
    *context = of_device[i].context;
    return *context ? OK : NO_MEMORY;
}
CALL(cuDevicePrimaryCtxRelease_v2, hipDevicePrimaryCtxRelease)(int device)
{
    const int i = device - FIRST_DEVICE;
    if (i < 0 || i >= MAX_DEVICES || of_device[i].uses == 0) return WRONG("a context that nobody has");
    if (--of_device[i].uses > 0) return OK;
    for (const object *o = live; o; o = o->next)
        if (o->kind != CONTEXT && o->device == i) (void)WRONG("a context goes before its %s", kind_names[o->kind]);
    if (thread_context == of_device[i].context) thread_context = NULL;
    (void)drop(of_device[i].context);
    of_device[i].context = NULL;
    return OK;
}
CALL(cuCtxSetCurrent, hipCtxSetCurrent)(void *context)
{
    if (context && !find(context, CONTEXT)) return INVALID;
    thread_context = context;
    return OK;
}
CALL(cuMemGetInfo_v2, hipMemGetInfo)(size_t *free_bytes, size_t *total)
{
    NEEDS_CONTEXT();
    *total = now.memory_bytes;
    *free_bytes = now.memory_bytes - of_device[device_now()].bytes;
    return OK;
}

enum { PAGE = 4096, ALIGN = 256 };
CALL(cuMemAlloc_v2, hipMalloc)(uint64_t *at, size_t bytes)
{
    NOT_IN_CAPTURE();
    const uint64_t taken = (bytes + ALIGN - 1) / ALIGN * ALIGN, pages = (taken + PAGE - 1) / PAGE * PAGE;
    if (bytes == 0) return WRONG("no bytes were asked for");
    if (of_device[device_now()].bytes + bytes > now.memory_bytes) return NO_MEMORY;
    char *p = mmap(NULL, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    object *o = p == MAP_FAILED ? NULL : make(MEMORY, bytes);
    if (!o) return NO_MEMORY;
    (void)mprotect(p + pages, PAGE, PROT_NONE);
    o->at = p + pages - taken;
    memset(o->at, 0xa7, taken); /* nobody reads what nobody wrote */
    now.live_bytes += bytes;
    of_device[device_now()].bytes += bytes;
    now.allocs++;
    *at = (uintptr_t)o->at + FAR;
    return OK;
}
CALL(cuMemFree_v2, hipFree)(uint64_t at)
{
    for (object *o = live; o; o = o->next) {
        if (o->kind != MEMORY || (uintptr_t)o->at + FAR != at) continue;
        if (o->device != device_now())
            return WRONG("memory of device %d is freed by device %d", o->device, device_now());
        const uint64_t taken = (o->bytes + ALIGN - 1) / ALIGN * ALIGN, pages = (taken + PAGE - 1) / PAGE * PAGE;
        for (object *s = live; s; s = s->next) /* freeing waits */
            if (s->kind == STREAM && !s->capturing) run_until(s, NULL);
        (void)munmap(o->at + taken - pages, pages + PAGE);
        now.live_bytes -= o->bytes;
        of_device[o->device].bytes -= o->bytes;
        return drop(o);
    }
    return WRONG("memory is freed that is not there");
}
CALL(cuMemHostAlloc, hipHostMalloc)(void **at, size_t bytes, unsigned flags)
{
    NOT_IN_CAPTURE();
    (void)flags;
    object *o = make(HOST, bytes);
    if (!o || !(o->at = malloc(bytes ? bytes : 1))) return o ? drop(o), NO_MEMORY : NO_MEMORY;
    *at = o->at;
    return OK;
}
CALL(cuMemFreeHost, hipHostFree)(void *at)
{
    for (object *o = live; o; o = o->next) {
        if (o->kind != HOST || o->at != at) continue;
        for (object *s = live; s; s = s->next)
            if (s->kind == STREAM && !s->capturing) run_until(s, NULL);
        free(o->at);
        return drop(o);
    }
    return WRONG("host memory is freed that is not there");
}

CALL(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(uint64_t to, const void *from, size_t bytes, void *stream)
{
    NEEDS_CONTEXT();
    op o = {.what = WRITE, .to = to, .from = (uintptr_t)from, .bytes = bytes};
    if (!reach(device_now(), to, bytes)) return INVALID;
    if (!is_pinned(from)) {
        if (!(o.bytes_now = malloc(bytes ? bytes : 1))) return NO_MEMORY;
        memcpy(o.bytes_now, from, bytes);
    }
    now.writes++;
    return add(find_here(stream, STREAM), o);
}
CALL(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void *to, uint64_t from, size_t bytes, void *stream)
{
    NEEDS_CONTEXT();
    if (!reach(device_now(), from, bytes)) return INVALID;
    now.reads++;
    return add(find_here(stream, STREAM), (op){.what = READ, .to = (uintptr_t)to, .from = from, .bytes = bytes});
}
CALL(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    NEEDS_CONTEXT();
    if (!reach(device_now(), from, bytes) || !reach(device_now(), to, bytes)) return INVALID;
    return add(find_here(stream, STREAM), (op){.what = COPY, .to = to, .from = from, .bytes = bytes});
}

CALL(cuStreamCreate, hipStreamCreateWithFlags)(void **stream, unsigned flags)
{
    NOT_IN_CAPTURE();
    *stream = make(STREAM, 0);
    return flags == 1 ? OK : WRONG("a stream that waits for others");
}
CALL(cuStreamDestroy_v2, hipStreamDestroy)(void *stream)
{
    object *s = find_here(stream, STREAM);
    if (!s) return INVALID;
    if (s->capturing) return WRONG("a stream goes while it captures");
    run_until(s, NULL);
    return drop(s);
}
CALL(cuStreamSynchronize, hipStreamSynchronize)(void *stream)
{
    NOT_IN_CAPTURE();
    object *s = find_here(stream, STREAM);
    if (!s) return INVALID;
    now.syncs++;
    run_until(s, NULL);
    return OK;
}
CALL(cuStreamWaitEvent, hipStreamWaitEvent)(void *stream, void *event, unsigned flags)
{
    NEEDS_CONTEXT();
    object *e = find(event, EVENT);
    return e && !flags ? add(find_here(stream, STREAM), (op){.what = WAIT, .object = e}) : INVALID;
}
CALL(cuEventCreate, hipEventCreateWithFlags)(void **event, unsigned flags)
{
    NOT_IN_CAPTURE();
    *event = make(EVENT, flags);
    return OK;
}
CALL(cuEventDestroy_v2, hipEventDestroy)(void *event)
{
    object *e = find(event, EVENT);
    if (e && e->record) run_until(e->stream, NULL);
    return drop(e);
}
CALL(cuEventRecord, hipEventRecord)(void *event, void *stream)
{
    NEEDS_CONTEXT();
    object *e = find_here(event, EVENT);
    if (!e) return INVALID;
    e->stream = find_here(stream, STREAM);
    return add(e->stream, (op){.what = RECORD, .object = e});
}
CALL(cuEventSynchronize, hipEventSynchronize)(void *event)
{
    NOT_IN_CAPTURE();
    object *e = find(event, EVENT);
    if (!e) return INVALID;
    if (e->record) run_until(e->stream, e->record);
    return OK;
}

CALL(cuModuleLoadData, hipModuleLoadData)(void **module, const void *image)
{
    NOT_IN_CAPTURE();
    if (!image) return WRONG("no image");
    *module = make(MODULE, 0);
    return OK;
}
CALL(cuModuleUnload, hipModuleUnload)(void *module)
{
    object *m = find_here(module, MODULE);
    for (object *o = live, *next; m && o; o = next) {
        next = o->next;
        if (o->kind == FUNCTION && o->stream == m) (void)drop(o);
    }
    return drop(m);
}
CALL(cuModuleGetFunction, hipModuleGetFunction)(void **function, void *module, const char *name)
{
    NEEDS_CONTEXT();
    object *m = find_here(module, MODULE);
    for (const standin_kernel *k = standin_kernels; m && k->name; k++) {
        if (strcmp(k->name, name) != 0) continue;
        object *f = make(FUNCTION, 0);
        f->kernel = k;
        f->stream = m;
        *function = f;
        return OK;
    }
    return NOT_FOUND;
}

/* Copies the arguments, which the caller may change: pairs of address and offset, the struct, the room's bytes. */
static void **keep(const standin_kernel *k, void **from)
{
    const int n = 2 * *k->values, total = n + 2;
    char *block = calloc(1, (size_t)total * sizeof(void *) + (size_t)(n + 1) * 8 + (size_t)*k->sizes + 16);
    void **to = (void **)(void *)block;
    char *data = block + (size_t)total * sizeof(void *);
    if (!block) return NULL;
    for (int i = 0; i < total; i++) {
        const size_t bytes = i == n ? (size_t)*k->sizes : i == n + 1 ? 4 : 8;
        memcpy(data, from[i], bytes);
        to[i] = data;
        data += (bytes + 7) / 8 * 8;
    }
    return to;
}
CALL(cuLaunchKernel, hipModuleLaunchKernel)
(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
 unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra)
{
    NEEDS_CONTEXT();
    object *f = find_here(function, FUNCTION);
    if (!f) return INVALID;
    const standin_kernel *k = f->kernel;
    if (extra || grid_y * grid_z * block_y * block_z != 1) return WRONG("%s: more than one dimension", k->name);
    if (grid_x == 0 || grid_x > 0x7fffffff || block_x != k->width || shared < k->room)
        return WRONG("%s: %u groups of %u, %u bytes", k->name, grid_x, block_x, shared);
    for (int i = 0; i < *k->values; i++) {
        const uint64_t at = *(const uint64_t *)parameters[2 * i], from = *(const uint64_t *)parameters[2 * i + 1];
        if (!reach(device_now(), at + from, 1)) return WRONG("%s: value %d lies outside its buffer", k->name, i);
    }
    now.launches++;
    int at = 0;
    while (told_of[at] && told_of[at] != k->name) at++;
    if (at < 511) told_of[at] = k->name;
    now.rows += strncmp(k->name, "rows_", 5) == 0;
    now.tiles += strncmp(k->name, "tile_", 5) == 0;
    op o = {.what = LAUNCH, .object = f, .groups = grid_x, .width = block_x, .room = shared};
    o.arguments = keep(k, parameters);
    return o.arguments ? add(find_here(stream, STREAM), o) : NO_MEMORY;
}

/* ---- graphs ---- */

CALL(cuStreamBeginCapture_v2, hipStreamBeginCapture)(void *stream, int mode)
{
    NOT_IN_CAPTURE();
    object *s = find_here(stream, STREAM);
    if (!s || mode != 1) return WRONG("a capture of mode %d", mode);
    capture = s;
    s->capturing = make(GRAPH, 0);
    return OK;
}
CALL(cuStreamEndCapture, hipStreamEndCapture)(void *stream, void **graph)
{
    object *s = find_here(stream, STREAM);
    int code = OK;
    if (!s || !s->capturing) return WRONG("the end of no capture");
    const bool fail = fails(&code);
    *graph = fail ? NULL : s->capturing;
    if (fail) (void)drop(s->capturing);
    s->capturing = NULL;
    capture = NULL;
    now.captures++;
    return code;
}
CALL(cuGraphDestroy, hipGraphDestroy)(void *graph) { return drop(find_here(graph, GRAPH)); }
CALL(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags)(void **exec, void *graph, unsigned long long flags)
{
    NOT_IN_CAPTURE();
    object *g = find_here(graph, GRAPH), *e = g && !flags ? make(EXEC, 0) : NULL;
    if (!e) return INVALID;
    e->first = g->first; /* it has them now */
    g->first = NULL;
    g->last = &g->first;
    *exec = e;
    return OK;
}
CALL(cuGraphExecDestroy, hipGraphExecDestroy)(void *exec)
{
    for (object *s = live; s; s = s->next) { /* it may go while it runs */
        if (s->kind == STREAM && !s->capturing) run_until(s, NULL);
    }
    return drop(find_here(exec, EXEC));
}
CALL(cuGraphLaunch, hipGraphLaunch)(void *exec, void *stream)
{
    NOT_IN_CAPTURE();
    object *e = find_here(exec, EXEC);
    now.replays++;
    return e ? add(find_here(stream, STREAM), (op){.what = REPLAY, .object = e}) : INVALID;
}
