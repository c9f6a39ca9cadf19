/* SPDX-License-Identifier: MIT */
/* src/gpu/gpu.h -- devices that run kernels: one table of operations and one set of kernels (kernels/), over drivers
 * that are opened at run time.
 *
 * What a kernel computes is defined to the bit, and the same as what the CPU computes: products are exact integer sums
 * that meet floats in a written order (backend/numbers). A value of a program is (buffer, byte offset); a kernel gets
 * both, and a struct of sizes by value. */
#ifndef QN_GPU_GPU_H
#define QN_GPU_GPU_H

#include "backend/backend.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "gpu/kernels/sizes.h"

/* ---- drivers ---- */

typedef struct qn_gpu_device qn_gpu_device; /* a driver's own */

enum { QN_GPU_MAX_VALUES = 13, QN_GPU_MAX_SIZES = 704 };

/* One launch: kernel `kernel` of kernels.def over n_groups groups of `width` work-items. */
typedef struct qn_gpu_launch {
    int kernel;
    int n_values;
    void *memory[QN_GPU_MAX_VALUES]; /* the driver's, of each value's buffer */
    uint64_t offset[QN_GPU_MAX_VALUES];
    uint8_t sizes[QN_GPU_MAX_SIZES]; /* the kernel's struct, n_sizes bytes of it */
    size_t n_sizes;
    uint64_t n_groups;
    uint32_t width, room; /* room: bytes of memory of a group */
} qn_gpu_launch;

typedef struct qn_gpu_device_info {
    qn_device device;
    uint64_t largest; /* bytes of one buffer */
    uint64_t free;    /* bytes that it says are free now; 0: it does not say */
    bool captures;    /* capture_begin and its kin work on this device */
    bool warps;    /* 32 work-items of a group run as one: for products of few columns rows_NAME (kernels/tiles.cl) */
    bool matrices; /* matrices of int8 are multiplied by an instruction: for many columns tile_NAME */
    bool doubles;  /* 64-bit floats */
} qn_gpu_device_info;

/* Memory of the host that a device reads and writes without a copy in between (pinned). */
typedef struct qn_gpu_host {
    void *at;
    uint64_t bytes;
    void *own; /* the driver's */
} qn_gpu_host;

/* A driver: one file, which alone knows its library. All calls of a device come from one thread at a time. A device
 * has one queue: what is written, copied, launched, replayed and read is done in the order of the calls, and only
 * `read`, `event_sync` and `finish` wait. A call may fail with what an earlier one has met; status `lost` says that
 * the device is gone for good. */
typedef struct qn_gpu_driver {
    const char *name;
    /* At most max; unsupported where the library is not there or too old: says what to install. */
    qn_status (*devices)(qn_device *out, int max, int *n, qn_error *err);
    qn_status (*open)(int index, qn_gpu_device **out, qn_gpu_device_info *info, qn_error *err);
    void (*close)(qn_gpu_device *d);

    qn_status (*alloc)(qn_gpu_device *d, uint64_t bytes, void **memory, qn_error *err);
    void (*free)(qn_gpu_device *d, void *memory);
    /* Memory of the host's as memory of the device, to read; it stays where it is until that is freed. NULL member:
     * this driver cannot. */
    qn_status (*wrap)(qn_gpu_device *d, const void *host, uint64_t bytes, void **memory, qn_error *err);
    /* Memory of this device that somebody else has made, `bytes` of it; `free` ends it, for this side. NULL member: it
     * is used as it is named, and never freed. */
    qn_status (*adopt)(qn_gpu_device *d, void *named, uint64_t bytes, void **memory, qn_error *err);
    qn_status (*host_alloc)(qn_gpu_device *d, uint64_t bytes, qn_gpu_host *out, qn_error *err);
    void (*host_free)(qn_gpu_device *d, qn_gpu_host *host);

    /* `stays`: src is host_alloc's, and stays as it is until an event recorded after this call is done: nothing is
     * copied first. Otherwise src may change when it returns. */
    qn_status (*write)(qn_gpu_device *d, void *memory, uint64_t offset, const void *src, uint64_t bytes, bool stays,
                       qn_error *err);
    qn_status (*read)(qn_gpu_device *d, void *memory, uint64_t offset, void *dst, uint64_t bytes, qn_error *err);
    /* Within the device; the two ranges don't overlap. */
    qn_status (*copy)(qn_gpu_device *d, void *to, uint64_t to_at, void *from, uint64_t from_at, uint64_t bytes,
                      qn_error *err);

    /* An event is done when all that was called before it was recorded last is; one never recorded is done. */
    qn_status (*event_create)(qn_gpu_device *d, void **event, qn_error *err);
    void (*event_destroy)(qn_gpu_device *d, void *event);
    qn_status (*event_record)(qn_gpu_device *d, void *event, qn_error *err);
    qn_status (*event_sync)(qn_gpu_device *d, void *event, qn_error *err); /* the caller waits */
    /* What is called on `waits` from now on waits for an event of `d`. NULL member: its devices can't wait for each
     * other. */
    qn_status (*event_wait)(qn_gpu_device *waits, qn_gpu_device *d, void *event, qn_error *err);

    /* What a kernel of kernels.def needs beyond the sources; called before its first launch. */
    qn_status (*prepare)(qn_gpu_device *d, int kernel, qn_error *err);
    qn_status (*launch)(qn_gpu_device *d, const qn_gpu_launch *l, qn_error *err);
    /* Launches between begin and end are noted, not done; replay does all of them in order, as one, any number of
     * times. After a failure of a launch, end is called all the same. NULL members: launches go one by one. */
    qn_status (*capture_begin)(qn_gpu_device *d, qn_error *err);
    qn_status (*capture_end)(qn_gpu_device *d, void **graph, qn_error *err);
    qn_status (*replay)(qn_gpu_device *d, void *graph, qn_error *err);
    void (*graph_destroy)(qn_gpu_device *d, void *graph); /* not before what it was replayed for is done */

    qn_status (*finish)(qn_gpu_device *d, qn_error *err); /* waits for everything */
} qn_gpu_driver;

/* ---- kernels ---- */

#define QN_GPU_KERNEL(name, width, room) QN_GPU_##name,
typedef enum qn_gpu_kernel {
#include "gpu/kernels.def"
    QN_GPU_KERNEL_COUNT
} qn_gpu_kernel;
#undef QN_GPU_KERNEL
const char *qn__gpu_kernel_name(int kernel);
uint32_t qn__gpu_kernel_width(int kernel);
uint32_t qn__gpu_kernel_room(int kernel);
/* Groups that have a work-item for each of n. */
static inline int64_t qn__gpu_groups(int kernel, int64_t n)
{
    const int64_t width = qn__gpu_kernel_width(kernel);
    return (n + width - 1) / width;
}
/* The sources of all kernels, in the order in which they are compiled as one; NULL after the last. */
const char *qn__gpu_source(int i, size_t *len);

/* ---- the backend ---- */

typedef struct qn_gpu {
    qn_backend base;
    const qn_gpu_driver *driver;
    qn_gpu_device *device;
    qn_gpu_device_info info;
    int32_t index;        /* of the device */
    uint64_t limit, used; /* bytes of buffers: at most, 0 as many as there are; now */
    qn_error lost;        /* status QN_OK: it is there */
    qn_gpu_host *hosts;   /* [n_hosts] given out and not back */
    int n_hosts, cap_hosts;
} qn_gpu;

typedef struct qn_gpu_buffer {
    qn_buffer base;
    void *memory;
    bool foreign; /* somebody else's: it counts for nothing */
} qn_gpu_buffer;

enum { QN_GPU_MAX_DEVICES = 64 };
qn_status qn__gpu_open(const qn_backend_type *type, const qn_gpu_driver *driver, const qn_backend_options *options,
                       qn_backend **out, qn_error *err);
/* The members of a type's table that all drivers share. */
#define QN_GPU_BACKEND_MEMBERS \
    .close = qn__gpu_close, .memory = qn__gpu_memory, .buffer_create = qn__gpu_buffer_create, \
    .buffer_destroy = qn__gpu_buffer_destroy, .upload = qn__gpu_upload, .download = qn__gpu_download, \
    .host_alloc = qn__gpu_host_alloc, .host_free = qn__gpu_host_free, .send = qn__gpu_send, .copy = qn__gpu_copy, \
    .event_create = qn__gpu_event_create, .event_destroy = qn__gpu_event_destroy, \
    .event_record = qn__gpu_event_record, .event_wait = qn__gpu_event_wait, .accepts = qn__gpu_accepts, \
    .scratch = qn__gpu_scratch, .compile = qn__gpu_compile, .rebind = qn__gpu_rebind, \
    .program_destroy = qn__gpu_program_destroy, .run = qn__gpu_run, .sync = qn__gpu_sync, \
    .dl_index = qn__gpu_dl_index, .dl_memory = qn__gpu_dl_memory, .dl_wrap = qn__gpu_dl_wrap, \
    .together = qn__gpu_together
void qn__gpu_close(qn_backend *be);
qn_status qn__gpu_buffer_create(qn_backend *be, uint64_t bytes, qn_buffer **out, qn_error *err);
void qn__gpu_buffer_destroy(qn_buffer *buffer);
qn_status qn__gpu_upload(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err);
qn_backend_memory qn__gpu_memory(const qn_backend *be);
qn_status qn__gpu_host_alloc(qn_backend *be, uint64_t bytes, void **out, qn_error *err);
void qn__gpu_host_free(qn_backend *be, void *memory);
qn_status qn__gpu_send(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err);
qn_status qn__gpu_copy(qn_buffer *to, uint64_t to_at, const qn_buffer *from, uint64_t from_at, uint64_t bytes,
                       qn_error *err);
qn_status qn__gpu_event_create(qn_backend *be, qn_event **out, qn_error *err);
void qn__gpu_event_destroy(qn_event *event);
qn_status qn__gpu_event_record(qn_event *event, qn_error *err);
qn_status qn__gpu_event_wait(qn_event *event, qn_error *err);
qn_status qn__gpu_download(const qn_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes, qn_error *err);
bool qn__gpu_accepts(const qn_backend *be, const qn_node *node, qn_error *err);
uint64_t qn__gpu_scratch(const qn_backend *be, const qn_node *node);
qn_status qn__gpu_compile(qn_backend *be, const qn_segment *segment, qn_program **out, qn_error *err);
void qn__gpu_rebind(qn_program *program, const qn_buffer *activations);
void qn__gpu_program_destroy(qn_program *program);
qn_status qn__gpu_run(qn_program *program, const qn_run *run, qn_error *err);
qn_status qn__gpu_sync(qn_backend *be, qn_error *err);
int32_t qn__gpu_dl_index(const qn_backend *be);
void *qn__gpu_dl_memory(const qn_buffer *buffer);
qn_status qn__gpu_dl_wrap(qn_backend *be, void *memory, uint64_t bytes, qn_buffer **out, qn_error *err);
int32_t qn__gpu_together(const qn_backend *be, qn_node *const *nodes, int32_t n);

/* The status of a driver's call, after noting that the device is gone; and, for what begins, whether it is. */
qn_status qn__gpu_noted(qn_gpu *gpu, qn_status status, qn_error *err);
qn_status qn__gpu_there(const qn_gpu *gpu, qn_error *err);

/* ---- operations ---- */

/* Collects the launches of one node. */
typedef struct qn_gpu_builder qn_gpu_builder;
/* Adds one. Values follow as pairs (node, bytes): a node's own memory from that byte on, or with node NULL the scratch
 * of the node at hand. */
typedef struct qn_gpu_value {
    const qn_node *node; /* NULL: scratch */
    int64_t from;        /* bytes */
} qn_gpu_value;
void qn__gpu_launch(qn_gpu_builder *b, qn_gpu_kernel kernel, int64_t n_groups, const qn_gpu_value *values, int n_values,
                    const void *sizes, size_t n_sizes);
const qn_gpu_device_info *qn__gpu_info(const qn_gpu_builder *b);
#define QN_GPU_LAUNCH(b, kernel, n_groups, sizes, ...) \
    qn__gpu_launch(b, kernel, n_groups, (const qn_gpu_value[]){__VA_ARGS__}, \
                   (int)(sizeof((const qn_gpu_value[]){__VA_ARGS__}) / sizeof(qn_gpu_value)), &(sizes), sizeof(sizes))
#define QN_GPU_OF(node) \
    { \
        (node), 0 \
    }
#define QN_GPU_AT(node, from) \
    { \
        (node), (from) \
    }
#define QN_GPU_SCRATCH(from) \
    { \
        NULL, (from) \
    }

/* Adds what copies x into y at `to`, which has x's shape. */
void qn__gpu_move(qn_gpu_builder *b, const qn_node *y, const qn_layout *to, const qn_node *x);

typedef struct qn_gpu_op {
    bool (*accepts)(const qn_node *n, qn_error *err);
    uint64_t (*scratch)(const qn_node *n); /* NULL: none */
    void (*launch)(qn_gpu_builder *b, const qn_node *n);
} qn_gpu_op;
/* NULL: this operation has no row. */
const qn_gpu_op *qn__gpu_op(qn_op op);
#define QN_GPU_OP(name) extern const qn_gpu_op qn__gpu_op_##name;
#include "gpu/ops.def"
#undef QN_GPU_OP

/* ---- nodes that are computed as one ---- together.c says which; op/ how ---- */

/* A run of nodes: norms, or what gates, before products of their result; products of one x, and a sum with what comes
 * of one; rotations; writes to caches. NULL and 0: it has none of these. A norm whose result is added to something is
 * `post`; then norm[0], if there is one, is that of the sum, and products are of the last of them. */
typedef struct qn_gpu_run {
    const qn_node *norm[QN_GPU_MAX_JOBS], *product[QN_GPU_MAX_JOBS], *turn[QN_GPU_MAX_JOBS], *write[QN_GPU_MAX_JOBS];
    int n_norms, n_products, n_turns, n_writes;
    const qn_node *post, *post_sum;
    const qn_node *gate, *times; /* times: the gate's result times something */
    const qn_node *sum;          /* of the only product and something else */
    int32_t n;                   /* nodes in all; 1: the first, by itself */
} qn_gpu_run;
void qn__gpu_find_run(qn_node *const *nodes, int32_t n, qn_gpu_run *out);
void qn__gpu_launch_run(qn_gpu_builder *b, const qn_gpu_run *run);

/* Elements of a block of columns that the weight's products want, 0 for columns of floats. */
int qn__gpu_column_block(const qn_node *product);
/* Products of one x, each with its own weight, of one format of columns. `columns`: they are there already, in the
 * scratch of the first. sum: NULL, or the node that adds something to the only one. */
void qn__gpu_products(qn_gpu_builder *b, const qn_node *const *product, int n, bool columns, const qn_node *sum);
/* Where columns for products of `first` are, beside a node's own values. */
void qn__gpu_norms(qn_gpu_builder *b, const qn_node *const *norm, int n, const qn_node *first);
/* norm, sum = norm + something, next: NULL, or the norm of that; the last is what `first`, if not NULL, multiplies. */
void qn__gpu_norm_sum(qn_gpu_builder *b, const qn_node *norm, const qn_node *sum, const qn_node *next,
                      const qn_node *first);
void qn__gpu_turns(qn_gpu_builder *b, const qn_node *const *turn, int n);
void qn__gpu_writes(qn_gpu_builder *b, const qn_node *const *write, int n);
void qn__gpu_gate(qn_gpu_builder *b, const qn_node *gate, const qn_node *times, const qn_node *first);
/* Two rotations, of queries and of keys; and two writes, of these keys and of values: one launch. */
bool qn__gpu_turns_to_write(const qn_node *const *turn, const qn_node *const *write);
void qn__gpu_turn_write(qn_gpu_builder *b, const qn_node *const *turn, const qn_node *const *write);
/* Whether a launch can do both. */
bool qn__gpu_turns_alike(const qn_node *a, const qn_node *b);
bool qn__gpu_products_alike(const qn_node *a, const qn_node *b);
bool qn__gpu_gates(const qn_node *n);

/* ---- conditions for accepts ---- */
/* Rows along the last dimension, dense within, one fixed stride apart. */
typedef struct qn_gpu_rows {
    int64_t n, size, stride; /* elements */
} qn_gpu_rows;
bool qn__gpu_rows_of(const qn_layout *l, qn_gpu_rows *out);
/* Rows dense within, in two levels of strides; *n: how many. */
bool qn__gpu_rows_at(const qn_layout *l, qn_rows *out, int64_t *n);
bool qn__gpu_want_rows(const qn_node *user, const char *what, const qn_node *n, qn_error *err);
bool qn__gpu_want_dtype(const qn_node *user, const char *what, const qn_node *n, qn_dtype dtype, qn_error *err);
/* Its number in kernels/sizes.h; all have one. */
bool qn__gpu_format(qn_dtype dtype, int32_t *out);
/* Real or block: elements that kernels read as floats. */
bool qn__gpu_want_format(const qn_node *user, const char *what, const qn_node *n, qn_error *err);
/* Row numbers: I32 or I64, whose last dimension has any stride. */
bool qn__gpu_want_ids(const qn_node *user, const char *what, const qn_node *n, qn_error *err);
/* Element r of ids, row-major, begins at. */
bool qn__gpu_ids_at(const qn_layout *l, qn_rows *out);
/* How the elements of a value of layout `to` lie in up to three others, which broadcast to it. */
void qn__gpu_walk(qn_walk_sizes *s, const qn_layout *to, const qn_layout *const *src, int n_src);
bool qn__gpu_want_dense(const qn_node *user, const char *what, const qn_node *n, qn_error *err);

#endif
