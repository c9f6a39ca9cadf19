/* SPDX-License-Identifier: MIT */
/* src/backend/sched.h -- the scheduler: places a graph's nodes on backends, splits it, inserts copies, plans and
 * compiles it, keeps what it compiled, and runs it. Created once a model context; counters prove it.
 *
 * Placement: a param is where its buffer is. A node goes where the source is that its row of ops.def says it follows,
 * if that is resident: an update to its memory, an attention to its keys, products, norms and look-ups to their
 * weights. Everything else takes its hint, or else the place of its first computed source. When the chosen backend does
 * not accept the node, the next one in order that does takes it, and that is logged once (strict: unsupported). The
 * same graph is placed the same way on every run. A bound output lies where its hint says, whatever computes it. */
#ifndef QN_BACKEND_SCHED_H
#define QN_BACKEND_SCHED_H

#include "backend/backend.h"
#include "graph/plan/plan.h"

typedef struct qn_sched qn_sched;
typedef struct qn_exec qn_exec; /* a compiled graph */

typedef struct qn_sched_options {
    bool strict;         /* a fall-back to another backend is an error */
    uint32_t passes_off; /* see qn_pass_options */
    int cache_capacity;  /* compiled graphs kept; 0 means 32 */
    bool no_cache;       /* nothing is kept (for comparing) */
} qn_sched_options;

/* Backends are borrowed and outlive the scheduler; at most QN_MAX_PLACES. */
qn_status qn__sched_create(qn_backend *const *backends, int n_backends, const qn_sched_options *options, qn_sched **out,
                           qn_error *err);
void qn__sched_destroy(qn_sched *s); /* destroys every exec */

/* Finds a compiled graph by key; NULL is a miss (counted). */
qn_exec *qn__sched_find(qn_sched *s, const void *key, size_t key_bytes);
/* Compiles `graph`, which the scheduler takes over on success and on failure, and keeps it under the key. An activation
 * buffer that is too small grows, and everything compiled before against it moves to the larger one when next found,
 * which may mean compiling it again (qn_backend_type.rebind): reserve first. The result is valid until evicted by later
 * compiles (cache_capacity) or the scheduler ends; with an empty key, or no_cache, it is kept outside the cache until
 * the next such compile. */
qn_status qn__sched_compile(qn_sched *s, qn_graph *graph, const void *key, size_t key_bytes, qn_exec **out,
                            qn_error *err);
/* Worst case: sizes the activation buffers for this graph, which the scheduler takes over and discards. `admit` (NULL:
 * nobody is asked) sees the plan before anything is allocated for it, and its failure is that of reserve. */
typedef qn_status (*qn_admit_fn)(void *ctx, const qn_plan *plan, qn_error *err);
qn_status qn__sched_reserve(qn_sched *s, qn_graph *graph, qn_admit_fn admit, void *ctx, qn_error *err);
uint64_t qn__sched_reserved_bytes(const qn_sched *s);
/* Plans without allocating or compiling. `graph` stays the caller's but is optimized and placed. plan, passes and text,
 * to which memory and placement are printed, may be NULL. */
qn_status qn__sched_dry_run(qn_sched *s, qn_graph *graph, qn_plan *plan, qn_pass_report *passes, qn_str *text,
                            qn_error *err);

const qn_graph *qn__exec_graph(const qn_exec *e);
qn_graph *qn__exec_graph_to_tap(qn_exec *e); /* the same: for `tapped` of its nodes, and an arena that lives as long */
const qn_pass_report *qn__exec_passes(const qn_exec *e);
int qn__exec_n_segments(const qn_exec *e);
int qn__exec_n_transfers(const qn_exec *e);
int qn__exec_n_fallbacks(const qn_exec *e); /* nodes on another backend than the one that they belong on */
/* Says, once for each operation, that n runs at `place` because `wanted` does not take it. */
void qn__sched_fell_back(qn_sched *s, const qn_node *n, int32_t wanted, int32_t place, const qn_error *why);
/* Inputs and outputs by name; NULL when there is none (an input that no node reads may be gone). */
const qn_node *qn__exec_find(const qn_exec *e, const char *name);
/* Whole-value copies; bytes must match exactly. Any number before a run. Inputs and outputs keep their values until
 * another exec of this scheduler is set or run: execs share their activation buffers. */
qn_status qn__exec_set(qn_exec *e, const qn_node *input, const void *data, uint64_t bytes, qn_error *err);
qn_status qn__exec_get(const qn_exec *e, const qn_node *output, void *data, uint64_t offset, uint64_t bytes,
                       qn_error *err);
/* Bytes of any value, views included if they are dense: for an eval callback, right after the node; later the memory
 * may hold something else. */
qn_status qn__exec_peek(const qn_exec *e, const qn_node *node, void *data, uint64_t offset, uint64_t bytes,
                        qn_error *err);
/* Another home for a param, or the home of a bound output (QN_NODE_bound), from the next run on: memory of the backend
 * at node->place, large enough, and writable if the graph writes there. What one node is bound to must not overlap what
 * another is. NULL unbinds: before a buffer goes whose graph may run again; then something else must be bound before it
 * does. */
qn_status qn__exec_bind(qn_exec *e, qn_node *node, qn_buffer *buffer, uint64_t offset, qn_error *err);
/* One exec for many sizes. Its builder has up to two, tokens and rows of output; `less`, taken over on success and on
 * failure, is the graph with one less along an axis, from which the exec learns what depends on that. */
enum { QN_EXEC_AXES = 2 };
bool qn__exec_has_learnt(const qn_exec *e, int axis);
qn_status qn__exec_learn(qn_exec *e, int axis, qn_graph *less, qn_error *err);
/* From now on it computes less[axis] fewer than it was compiled for, at least 1; nothing is allocated. false, and
 * nothing has changed, where it has not learnt that, where more than sizes depends on it, or where a backend can't:
 * then the whole size is computed, and what is too much must be such as nobody sees. */
bool qn__exec_resize(qn_exec *e, const int32_t less[QN_EXEC_AXES]);
/* Starts everything, and waits for what backends without a queue of their own compute. No allocation. Getting a value
 * waits for it; so does qn__exec_wait for all that was started, with the status of what only showed then (a device that
 * is gone). Before memory that a run uses goes or is bound elsewhere, wait. */
qn_status qn__exec_run(qn_exec *e, const qn_run *run, qn_error *err);
qn_status qn__exec_wait(const qn_exec *e, qn_error *err);
/* The memory plan; then "node -> backend", one line each, and the splits with their copies. */
qn_status qn__exec_print_plan(const qn_exec *e, qn_str *out, qn_error *err);

/* ---- look.c: what models and tensor programs show of their graphs ---- */

/* Inside an eval callback, after: the node's values as float32, row-major. bytes = 4 * elements. */
qn_status qn__exec_read(const qn_exec *e, const qn_node *node, float *dst, uint64_t bytes, qn_error *err);
/* Inside a tap: a value's elements as float32, row-major, views of any layout too; raw: room for as many bytes as they
 * take. And back: of F32 only. */
qn_status qn__exec_take(const qn_exec *e, const qn_node *node, float *dst, void *raw, qn_error *err);
qn_status qn__exec_put(const qn_exec *e, const qn_node *node, const float *src, qn_error *err);
/* Inside a tap: hashes of a value's rows into the recording, where the run at hand is recorded; else nothing. items:
 * which of the run's tokens the rows are of, -1 of none. */
void qn__exec_record_hashes(const qn_exec *e, const qn_node *node, const int32_t *items, const uint64_t *hashes,
                            int32_t n);
/* Likewise what rows of `size` elements each were like; rows[i].item as items. */
void qn__exec_record_values(const qn_exec *e, const qn_node *node, const qn_trace_value *rows, int32_t n, int64_t size);
/* Measured times of a run, by node. */
typedef struct qn_node_times {
    double *ns;
    int32_t cap;
} qn_node_times;
/* Room for the nodes of e, zeroed. The owner frees `ns`. */
qn_status qn__exec_prepare_times(const qn_exec *e, qn_node_times *times, qn_error *err);
/* With the backends' names; `layer` -1 prints all; node_ns may be NULL. *out is freed with qn_free. */
qn_status qn__sched_print_graph(const qn_sched *s, const qn_graph *graph, int layer, const double *node_ns,
                                const char *title, qn_graph_format format, qn_graph_color color, char **out,
                                qn_error *err);
/* The text as the caller's, unless `status` or the text has failed; the buffer ends. */
qn_status qn__look_take(qn_str *text, qn_status status, char **out, qn_error *err);

#endif
