/* SPDX-License-Identifier: MIT */
/* src/base/trace.h -- the hook through which everything that takes time is recorded: a ring a thread, which that thread
 * alone fills and the recorder's writer (src/trace) alone empties. Nobody ever waits: what finds no room is counted.
 *
 * A thread is inside between qn__trace_enter and qn__trace_leave; rings live until nobody is. */
#ifndef QN_BASE_TRACE_H
#define QN_BASE_TRACE_H

#include "base/resident.h"
#include "base/samples.h"
#include "base/str.h"
#include "base/thread.h"
#include <quern/trace.h>

/* Of node, transfer and spans: id is the node's, waiting is what of the duration was spent at barriers. Of run: id is
 * the member, waiting the step's number; of step: waiting the number. Ticks saturate at 2^40 (minutes). */
typedef struct qn_trace_slot {
    uint64_t begin;
    uint64_t duration : 40, id : 24;
    uint64_t waiting : 40, kind : 8, unused : 16;
} qn_trace_slot;
#define QN_TRACE_MAX_TICKS ((UINT64_C(1) << 40) - 1)
#define QN_TRACE_MAX_NODES (1 << 24)
/* Kinds of slots that are no events: so many bytes (duration) follow in whole slots; id says of what. */
enum { QN_TRACE_SLOT_record = 255 };
enum { QN_TRACE_MAX_SIGHTS = 8 }; /* that are recorded */
enum {
    QN_TRACE_RECORD_step = 1,
    QN_TRACE_RECORD_mark = 2,
    QN_TRACE_RECORD_ids = 3,
    QN_TRACE_RECORD_gates = 4,
    QN_TRACE_RECORD_hashes = 5,
    QN_TRACE_RECORD_counts = 6,
    QN_TRACE_RECORD_values = 7
};

typedef struct qn_trace_ring {
    struct qn_trace_ring *next; /* of all rings; under the lock */
    uint32_t lane, thread;
    uint64_t mask;    /* slots - 1 */
    uint64_t look_at; /* the head at which the thread looks how far the writer is */
    uint64_t asked;   /* 1 + the tail at which the writer was asked to come */
    _Atomic uint64_t dropped;
    _Atomic bool orphan; /* its thread is gone */
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    uint64_t run; /* the writer's: the step and member in force before `tail` */
    int32_t member;
    int64_t flushed_ns;
    uint64_t limit; /* the head that the writer goes to */
    qn_samples samples;
    int samples_error;        /* errno where there are none; 0 */
    int64_t fault_ns, out_ns; /* the writer's: since when a fault is served, and there is no core; 0 */
    uint64_t fault_at;
    _Alignas(64) qn_trace_slot slots[];
} qn_trace_ring;

/* What a step is, as its caller knows it: arrays of the caller's, read before the run begins. */
typedef struct qn_trace_facts {
    uint32_t session;
    int32_t n_tokens, n_rows; /* rows that are computed: the tokens', then others that fill the graph */
    int32_t n_out, n_sights, span_size;
    const int32_t *tokens, *pos;       /* [n_tokens] */
    const int32_t *spans;              /* [n_sights, n_rows, span_size]: sequence, first cell, one past the last, .. */
    const char *const *sight_names;    /* [n_sights] inputs of the graph that have the spans */
    const char *ids_name, *gates_name; /* what experts' numbers and gates are called, before their layers; NULL: none */
} qn_trace_facts;

/* A step's record in a ring: this, then I32 tokens [n_tokens] if has_tokens, pos [n_tokens], spans [n_sights, n_tokens,
 * span_size]. */
typedef struct qn_trace_step_head {
    uint32_t plan, session;
    int32_t phase, n_tokens, n_out, n_sights, span_size, has_tokens;
} qn_trace_step_head;

/* Ids of experts: this, then I32 ids [n_ids]; several records of a node follow each other. Of the run in force. */
typedef struct qn_trace_ids_head {
    int32_t node, n_ids;
} qn_trace_ids_head;

/* Gates of experts: this, then F32 gates [n]; several records of a node follow each other. node: that of the ids. Of
 * the run in force. */
typedef struct qn_trace_gates_head {
    int32_t node, n;
} qn_trace_gates_head;

/* Hashes of a value's rows: this, then I32 items [n], which of the step's tokens each is of (-1: of none, it is of the
 * whole value), then U64 hashes [n]. The step is the record's argument. */
typedef struct qn_trace_hashes_head {
    int32_t node, n;
} qn_trace_hashes_head;

/* What rows of a value were like: this, then qn_trace_value [n]. The step is the record's argument. */
typedef struct qn_trace_values_head {
    int32_t node, n;
    uint32_t size; /* elements of a row */
} qn_trace_values_head;

/* What the system has counted for the process so far; -1: it doesn't say. */
typedef struct qn_trace_counts {
    int64_t minor_faults, major_faults, waits, preemptions, read_bytes;
} qn_trace_counts;

/* One run of a graph, for backends. */
struct qn_node;
typedef struct qn_trace_run {
    uint64_t step;
    const uint8_t *skip;  /* by node id: not recorded; NULL: all are */
    const int32_t *gates; /* by node id: 1 + the node with the ids of the experts whose gates it has; NULL: none has */
    bool no_experts;      /* neither ids nor gates */
    /* Called by backends with memory of their own after each node, when it is done and before the next begins: it looks
     * for ids and gates. Others record them themselves. */
    void (*look)(void *ctx, const struct qn_node *node);
    void *look_ctx;
} qn_trace_run;

/* ---- recording ---- */

extern _Atomic uint64_t qn__trace_generation; /* 0: off; else another one each time */
extern _Atomic bool qn__trace_ns;             /* times are clock_gettime's: the counter is no clock here */

static inline bool qn__trace_on(void)
{
#ifdef QN_NO_TRACE
    return false;
#else
    return atomic_load_explicit(&qn__trace_generation, memory_order_relaxed) != 0;
#endif
}

static inline uint64_t qn__trace_ticks(void)
{
    return atomic_load_explicit(&qn__trace_ns, memory_order_relaxed) ? (uint64_t)qn__now_ns() : qn__ticks();
}

/* This thread's ring, or NULL when it shall not record; then there is nothing to leave. May be nested. */
qn_trace_ring *qn__trace_enter(void);
void qn__trace_leave(void);

/* Whether n slots from the head on are free; else they are counted as one lost record. */
bool qn__trace_room(qn_trace_ring *r, uint64_t head, uint64_t n);

/* The slot is stored whole: what is there comes from the writer's core, and reading it first would wait for it. */
static inline void qn__trace_put(qn_trace_ring *r, int kind, uint32_t id, uint64_t begin, uint64_t end,
                                 uint64_t waiting)
{
    const uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    if (head >= r->look_at && !qn__trace_room(r, head, 1)) return;
    const uint64_t duration = end > begin ? end - begin : 0;
    r->slots[head & r->mask] =
        (qn_trace_slot){.begin = begin,
                        .duration = duration < QN_TRACE_MAX_TICKS ? duration : QN_TRACE_MAX_TICKS,
                        .id = id,
                        .waiting = waiting < QN_TRACE_MAX_TICKS ? waiting : QN_TRACE_MAX_TICKS,
                        .kind = (uint64_t)kind};
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

typedef struct qn_trace_part {
    const void *data;
    size_t bytes;
} qn_trace_part;
/* All of it or nothing, part behind part. */
void qn__trace_put_record(qn_trace_ring *r, uint32_t what, uint64_t begin, uint64_t arg, const qn_trace_part *parts,
                          int n_parts);
/* A record of the counts, of the end of this step (0: before one begins), unless the last was less than two
 * milliseconds ago: it takes some 3 us. */
void qn__trace_put_counts(qn_trace_ring *r, uint64_t step);
/* What this thread computes from now on is somebody else's work and isn't recorded; false: it is again. In pairs, which
 * may stand within each other. */
void qn__trace_pause(bool pause);
bool qn__trace_paused(void);
/* Spans of the library's own: 0 when off, then nothing is recorded at the end. */
uint64_t qn__trace_begin(void);
void qn__trace_end(qn_trace_kind kind, uint64_t begin);

/* ---- what is recorded once, as text or packed numbers: taken over by the recorder, gone when off ---- */
typedef enum qn_trace_blob_kind { QN_TRACE_BLOB_plan = 1, QN_TRACE_BLOB_file } qn_trace_blob_kind;
typedef struct qn_trace_blob {
    struct qn_trace_blob *next;
    qn_trace_blob_kind kind;
    qn_str bytes;
} qn_trace_blob;
void qn__trace_submit(qn_trace_blob_kind kind, qn_str *bytes); /* counts as dropped when there is no memory */
uint32_t qn__trace_next_plan(void);
uint64_t qn__trace_next_step(void);

/* What is to be recorded: borrowed by the one who asks, inside only. */
typedef struct qn_trace_filter {
    const char *ops, *layers, *tokens, *phases; /* lists as in qn_trace_options */
    bool no_tokens, no_experts, no_faults;
} qn_trace_filter;
const qn_trace_filter *qn__trace_get_filter(void);
/* "0,3-5,-1": is x in the list? NULL: yes. valid, when not NULL, says whether it is one. */
bool qn__trace_in_ranges(const char *list, int64_t x, bool *valid);
/* "linear*,attention" */
bool qn__trace_in_names(const char *list, const char *name);

/* Packed numbers: 7 bits a byte, lowest first, the high bit set where more follow; signed ones as 0, -1, 1, -2 .. */
void qn__put_varint(qn_str *s, uint64_t x);
void qn__put_signed(qn_str *s, int64_t x);
void qn__put_text(qn_str *s, const char *text, size_t n); /* its length, then its bytes */

/* ---- mapped files ---- */
void qn__trace_map_added(const void *data, size_t bytes, const char *path, int fd);
void qn__trace_map_removed(const void *data);
/* The number of the file that this address lies in, or -1; `offset` into it. */
int32_t qn__trace_map_of(const void *p, uint64_t *offset);
/* Which it was at a time of CLOCK_MONOTONIC. Of files that are mapped no more it is known until qn__trace_reap. */
int32_t qn__trace_map_at(uint64_t address, int64_t ns, uint64_t *offset);
/* The mapped file with the least number above `after`; false: none. */
typedef struct qn_trace_mapped {
    int32_t id;
    size_t bytes;
    qn_residency residency; /* who would say */
} qn_trace_mapped;
bool qn__trace_map_next(int32_t after, qn_trace_mapped *out);
/* qn__resident_pages of it; false when it is gone, or the kernel doesn't say. */
bool qn__trace_map_resident(const qn_trace_mapped *m, size_t offset, size_t unit, size_t n, uint32_t *pages);

/* ---- for the recorder ---- */
qn_status qn__trace_open_rings(const qn_trace_filter *filter, uint32_t ring_bytes, qn_error *err);
/* Off, once nobody is inside; refused to whoever is. What is left in the rings stays there. */
qn_status qn__trace_shut(qn_error *err);
/* The first; rings are added at the front only, and go by qn__trace_reap. */
qn_trace_ring *qn__trace_rings(void);
uint64_t qn__trace_held(void);             /* bytes of rings, and of blobs that nobody has taken */
qn_trace_blob *qn__trace_take_blobs(void); /* oldest first; freed by qn__trace_free_blobs */
void qn__trace_free_blobs(qn_trace_blob *blobs);
/* Waits so long, or until a quarter of a ring, or half of the kernel's samples of a thread, is full, or qn__trace_wake
 * was called since the last wait. One waits at a time. */
bool qn__trace_wait(int ms); /* whether qn__trace_wake was */
void qn__trace_wake(void);
/* read_bytes of /proc/self/io; -1: it doesn't say. While there are rings. */
int64_t qn__trace_read_bytes(void);
/* qn__samples_read of the ring. When its thread is gone and there are no more, sampling ends. */
size_t qn__trace_read_samples(qn_trace_ring *r, qn_sample *to, size_t n);
/* Frees rings that are empty, not sampled, and whose thread is gone, and forgets files that were unmapped before
 * sampled_ns: until then every ring's samples have been read, so that none that is still to come lies in them. */
void qn__trace_reap(int64_t sampled_ns);
uint64_t qn__trace_lost(void); /* blobs and threads that got no memory, and records of rings that are gone */
uint64_t qn__trace_steps(void);
void qn__trace_close_rings(void);

#endif
