/* SPDX-License-Identifier: MIT */
/* src/backend/backend.h -- what a backend is: one small table of functions, and the objects they pass around.
 * What a backend accepts and what it runs come from the same table row inside the backend and cannot disagree. A
 * backend may touch only memory of its own buffers; the scheduler moves values between backends.
 *
 * A backend has one queue, in order: what upload, run and copy start is done in the order of the calls, and of these
 * functions only download, sync, and waiting for an event on the host wait. So an upload may be called while an earlier
 * run still reads the memory, and a download right after a run. What the host does itself to a buffer's `host` memory
 * is in no queue: sync first. */
#ifndef QN_BACKEND_BACKEND_H
#define QN_BACKEND_BACKEND_H

#include "base/trace.h"
#include "graph/graph.h"
#include <quern/machine.h>

typedef struct qn_backend_type qn_backend_type;
typedef struct qn_program qn_program; /* defined by each backend */

/* First member of every backend's own struct. */
typedef struct qn_backend {
    const qn_backend_type *type;
    char name[32];    /* "cpu:avx512"; unique within a scheduler, set by open */
    size_t alignment; /* of values in its buffers */
} qn_backend;

/* First member of every backend's own buffer struct. */
typedef struct qn_buffer {
    qn_backend *backend;
    uint64_t bytes;
    void *host;     /* where the host may read and write it directly; NULL for device memory */
    bool read_only; /* wraps a mapping */
    bool borrowed;  /* wraps memory of somebody else, who allows writing: set by whoever wrapped it */
} qn_buffer;

/* A point in a backend's queue; first member of the backend's own struct. */
typedef struct qn_event {
    qn_backend *backend;
} qn_event;

typedef struct qn_backend_options {
    qn_cpu_level level; /* cap; meaningful with level_set */
    bool level_set;
    int n_threads;     /* 0: default */
    const char *which; /* what a user writes behind the type's name and a colon, which the type reads: a level, or the
                        * number of a device; NULL: nothing */
    const char *name;  /* NULL: the type's own choice */
    uint64_t memory_limit; /* bytes that its buffers may take together, as if the device had no more; 0: no limit.
                            * Memory of the host is limited elsewhere */
} qn_backend_options;

/* What a backend's own memory has room for. */
typedef struct qn_backend_memory {
    uint64_t used;    /* bytes of the buffers that there are, as they were asked for */
    uint64_t left;    /* bytes that may still be asked for: within the limit, and of what was free when it was opened */
    uint64_t largest; /* bytes of one buffer */
} qn_backend_memory;

/* A run of consecutive nodes of one backend. Leaves and views are listed nowhere: they need no work. */
typedef struct qn_segment {
    qn_node *const *nodes;
    int32_t n_nodes;
    qn_buffer *activations; /* node->offset and scratch_offset count from its start */
} qn_segment;

typedef struct qn_run {
    qn_eval_fn eval; /* NULL: none */
    void *eval_ctx;
    /* Called after each node with `tapped`, by one thread, while no other computes; it may read and write values. false
     * stops the run as a callback does. NULL: none. */
    bool (*tap)(void *ctx, const qn_node *node);
    void *tap_ctx;
    /* Called before each node with `paged`, by one thread, when all before it is done; it may wait. ids: the first
     * element of source 2, NULL where there is none. Only of a backend that `pages`. NULL: none. */
    void (*page)(void *ctx, const qn_node *node, const void *ids);
    void *page_ctx;
    /* True, which any thread may write: nobody wants the run any more. It ends with `cancelled` behind the node at hand
     * where the backend `stops`, or goes on to its end. NULL: it is wanted. */
    const _Atomic bool *unwanted;
    double *node_ns;  /* by node id: measured time is added; NULL: don't measure */
    int32_t *stopped; /* a run that fails: the id of the node where it ended; what comes before it was computed, nothing
                       * after it was. Untouched by a run that succeeds; NULL: nobody asks */
    const qn_trace_facts *facts; /* what is computed, for a recording; NULL: nothing that has tokens */
    const qn_trace_run *trace;   /* set by the scheduler while recording: backends record their nodes */
} qn_run;

struct qn_backend_type {
    const char *name;
    /* The devices that it finds, at most max of them, numbered as `which` numbers them; fails where it cannot look.
     * NULL: there is one, the processor. */
    qn_status (*devices)(qn_device *out, int max, int *n, qn_error *err);
    qn_status (*open)(const qn_backend_options *options, qn_backend **out, qn_error *err);
    void (*close)(qn_backend *be);
    /* Of memory of its own. NULL: its memory is the host's. */
    qn_backend_memory (*memory)(const qn_backend *be);
    /* Contents undefined. The owner destroys buffers before the backend, after what uses them is done. */
    qn_status (*buffer_create)(qn_backend *be, uint64_t bytes, qn_buffer **out, qn_error *err);
    /* Uses host memory in place (a mapped file); NULL member when the backend cannot. The memory outlives the buffer.
     */
    qn_status (*buffer_wrap)(qn_backend *be, const void *host, uint64_t bytes, qn_buffer **out, qn_error *err);
    void (*buffer_destroy)(qn_buffer *buffer);
    /* src may change when it returns. */
    qn_status (*upload)(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err);
    qn_status (*download)(const qn_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes, qn_error *err);
    /* Memory of the host that transfers read and write without a copy in between; and an upload of it, which stays as
     * it is until an event recorded after the call is done. NULL members: any memory is as good. */
    qn_status (*host_alloc)(qn_backend *be, uint64_t bytes, void **out, qn_error *err);
    void (*host_free)(qn_backend *be, void *memory);
    qn_status (*send)(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err);
    /* Between two buffers of this type without the host, in the queue of `to`, which waits for that of `from` and the
     * other way round. NULL, and unsupported with nothing done, where that can't be. */
    qn_status (*copy)(qn_buffer *to, uint64_t to_at, const qn_buffer *from, uint64_t from_at, uint64_t bytes,
                      qn_error *err);
    /* An event is done when all that was called before it was recorded last is done; one that never was is done. NULL
     * members: calls return when all is done, and there is nothing to wait for. */
    qn_status (*event_create)(qn_backend *be, qn_event **out, qn_error *err);
    void (*event_destroy)(qn_event *event);
    qn_status (*event_record)(qn_event *event, qn_error *err);
    qn_status (*event_wait)(qn_event *event, qn_error *err); /* on the host */
    /* Can it run this node, with these dtypes and shapes? Reasons go to err when not. */
    bool (*accepts)(const qn_backend *be, const qn_node *node, qn_error *err);
    uint64_t (*scratch)(const qn_backend *be, const qn_node *node); /* bytes that the node needs beside its result */
    /* Of nodes that follow one another in a part of a graph, the first and how many behind it are computed as one:
     * their sources, results and scratch are then in memory at the same time, so that they may be computed in any
     * order. At least 1. NULL: each by itself. */
    int32_t (*together)(const qn_backend *be, qn_node *const *nodes, int32_t n);
    /* Everything that can fail or allocate happens here. Nodes and buffers outlive the program. */
    qn_status (*compile)(qn_backend *be, const qn_segment *segment, qn_program **out, qn_error *err);
    /* Buffers of params and of bound outputs have changed since it was compiled (qn__exec_bind), or activations lie in
     * another buffer, which is no smaller: addresses are read again from the nodes. The old buffer of activations is
     * still there. Allocates nothing. NULL: this backend reads addresses of params at every run anyway, and compiles
     * again for other activations. */
    void (*rebind)(qn_program *program, const qn_buffer *activations);
    /* Nodes have become smaller than the program was compiled for, or larger again: layouts are read again from them.
     * Allocates nothing. NULL: this backend computes at the sizes that it has compiled. */
    void (*resize)(qn_program *program);
    void (*program_destroy)(qn_program *program);
    /* Returns when started or done; see sync. Runs of one backend are computed in the order of the calls. What was
     * started before a run failed is still computed. */
    qn_status (*run)(qn_program *program, const qn_run *run, qn_error *err);
    /* Others wait for what this one computes with, or have just used it: long runs should be short ones. NULL: never.
     */
    bool (*shared)(qn_backend *be);
    /* Waits: everything started is done. Nothing that a run uses goes or moves before. Its failure is that of something
     * started since the last sync; `lost` is for good. NULL: everything is done whenever a call returns. */
    qn_status (*sync)(qn_backend *be, qn_error *err);
    /* Node i of the segment is computed by all threads together. NULL: by one. */
    bool (*is_shared)(const qn_program *program, int32_t i);
    bool pages; /* it calls qn_run.page */
    bool stops; /* it looks at qn_run.unwanted behind each node */
    /* Memory of its devices as other libraries name it (DLPack): the kind of device, 0 where there is none; whether the
     * name is an address that bytes can be counted from; the number of the device; the name of a buffer's memory; and a
     * buffer over `bytes` of memory that somebody else keeps until it is destroyed. */
    int32_t dl_type;
    bool dl_is_address;
    int32_t (*dl_index)(const qn_backend *be);
    void *(*dl_memory)(const qn_buffer *buffer);
    qn_status (*dl_wrap)(qn_backend *be, void *memory, uint64_t bytes, qn_buffer **out, qn_error *err);
};

static inline qn_status qn__backend_sync(qn_backend *be, qn_error *err)
{
    return be->type->sync ? be->type->sync(be, err) : QN_OK;
}
static inline qn_status qn__event_wait(qn_event *event, qn_error *err)
{
    return event ? event->backend->type->event_wait(event, err) : QN_OK;
}

/* The registry: one row a backend type (src/backend/backends.def). The tables themselves live in the backends' folders.
 */
const qn_backend_type *qn__backend_find(const char *name);
/* Opens "NAME" or "NAME:WHICH" ("cpu:avx2", "opencl:1"), several with commas between, with the options given and
 * `which` from the list; NULL is "cpu". *n, 0 before, counts what is open, on failure too: the caller closes that. */
qn_status qn__backends_open(const char *list, const qn_backend_options *each, int max, qn_backend **out, int *n,
                            qn_error *err);
/* Whether a list names a type of devices. */
bool qn__backends_name_device(const char *list);

#endif
