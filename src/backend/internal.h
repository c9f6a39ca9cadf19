/* SPDX-License-Identifier: MIT */
/* src/backend/internal.h -- what the scheduler's files share.
 *
 * The road of a graph: place.c says which backend computes each node; split.c brings values to where they are needed
 * and cuts the order into segments; the planner (graph/plan.h) lays values out; exec.c compiles the segments against
 * real buffers; run.c runs them. */
#ifndef QN_BACKEND_INNER_H
#define QN_BACKEND_INNER_H

#include "backend/sched.h"
#include "base/thread.h"

/* An activation buffer, shared by the execs that were compiled against it. When a larger one takes its place in the
 * scheduler, older execs keep theirs until they are found again or go, so a compiled pointer never dangles. */
typedef struct qn_activations {
    qn_buffer *buffer;
    int32_t users; /* execs, and the scheduler while it is the current one */
} qn_activations;

struct qn_sched {
    qn_backend *backends[QN_MAX_PLACES];
    int n_backends;
    qn_sched_options options;
    uint64_t align;                             /* the strictest backend's */
    qn_activations *activations[QN_MAX_PLACES]; /* NULL until needed */
    uint8_t *staging;                           /* for transfers between two memories that the host can't touch */
    uint64_t staging_bytes;
    qn_cache *cache;
    qn_exec *loose;                          /* the last exec that is not in the cache */
    bool logged[QN_OP_COUNT][QN_MAX_PLACES]; /* fall-backs reported so far */
    int32_t n_fallbacks;                     /* of the graph that was placed last */
};

/* What one step of a run does: some nodes of one backend, or one transfer. */
typedef struct qn_step {
    int32_t place;           /* of the segment; of the transfer's result */
    int32_t first, n_nodes;  /* into exec->work; 0 nodes for a transfer */
    const qn_node *transfer; /* NULL for a segment */
    qn_program *program;
} qn_step;

/* A number of a node's layout that grows by `step` with a size. */
typedef struct qn_stretch {
    int64_t *at, step;
} qn_stretch;

typedef struct qn_axis {
    bool learnt;
    qn_stretch *stretches; /* NULL: the exec serves the size that it was compiled for alone */
    int32_t n;
} qn_axis;

/* What a recording knows of a compiled graph. */
enum { QN_EXEC_TRACED = 16 };
typedef struct qn_exec_trace {
    uint64_t generation; /* of the recording that has its plans; 0: none */
    /* One for each size that ran; of more than there is room for, the oldest is written down again. 0: it could not be.
     */
    struct {
        uint32_t id;
        int32_t less[QN_EXEC_AXES];
    } plans[QN_EXEC_TRACED];
    int32_t n_plans;
    uint8_t *skip;  /* by node id; NULL: nothing is left out */
    int32_t *gates; /* as in qn_trace_run */
    uint64_t step;  /* that is recorded now; 0: none is */
    bool has_experts;
    float *looked; /* room for elements that a device has, and behind them for their bytes */
    int64_t n_looked;
} qn_exec_trace;

/* The inputs of a place with memory of its own. */
typedef struct qn_input_block {
    uint64_t first, bytes; /* in its activations */
    uint8_t *host;         /* NULL: there are none, or each goes up when it is set */
    qn_event *sent;        /* when it may change again */
    bool dirty;            /* since it went up */
} qn_input_block;

struct qn_exec {
    qn_sched *sched;
    qn_graph *graph;
    qn_plan plan;
    qn_pass_report passes;
    qn_node **work; /* compute and update nodes in order of the graph */
    qn_step *steps;
    int32_t n_steps, n_segments, n_transfers, n_fallbacks;
    bool rebound; /* since the last run */
    qn_axis axes[QN_EXEC_AXES];
    int32_t less[QN_EXEC_AXES]; /* than it was compiled for, now */
    qn_activations *activations[QN_MAX_PLACES];
    qn_buffer *constants[QN_MAX_PLACES]; /* one a place, NULL where there are none */
    qn_input_block inputs[QN_MAX_PLACES];
    qn_exec_trace trace;
};

/* ---- place.c ---- */
/* Gives every node a place. `dry`: params without a buffer take their hint or place 0 instead of being an error. */
qn_status qn__place_nodes(qn_sched *s, qn_graph *g, bool dry, qn_error *err);
/* A constant without a buffer: the scheduler stores it wherever it is needed. */
static inline bool qn__is_loose_const(const qn_node *n)
{
    return n->op == QN_OP_param && (n->flags & QN_NODE_const) && !n->buffer;
}
static inline bool qn__computes(const qn_node *n)
{
    const qn_op_kind kind = qn__op_info(n->op)->kind;
    return kind == QN_KIND_compute || kind == QN_KIND_update;
}

/* What follows from positions and ids alone, which the host knows: the angles of rotations. It runs wherever it can,
 * and belongs nowhere. */
bool qn__is_early(const qn_node *n);

/* A node in messages. */
static inline const char *qn__title(const qn_node *n) { return n->name[0] ? n->name : qn_node_op_name(n); }

/* Its value was computed where it would put it. */
static inline bool qn__assigned_already(const qn_node *n) { return n->op == QN_OP_assign && n->src[1]->lender != NULL; }

/* ---- split.c ---- */
/* Inserts transfers, so that every source of a node lies where the node is computed. */
qn_status qn__split_graph(qn_sched *s, qn_graph *g, qn_error *err);
/* Fills work, steps and their counts. Memory is the graph's. */
qn_status qn__cut_steps(qn_exec *e, qn_error *err);

/* ---- together.c ---- */
/* For backends that compute several nodes as one: nodes of a kind that read the same come to stand beside each other,
 * and each learns which nodes it is computed with. */
qn_status qn__bring_together(qn_sched *s, qn_graph *g, qn_error *err);

/* ---- alone.c ---- */
/* Computes a node by itself. memory: the bytes of the root of each source. dst: those of the node's root, which of an
 * update is the first source's, with what it has written. */
qn_status qn__node_alone(qn_backend *be, const qn_node *n, const void *const *memory, void *dst, qn_error *err);

/* ---- look.c ---- */
/* n elements of any type as float32. */
qn_status qn__widen(qn_dtype dtype, const void *raw, float *dst, int64_t n, qn_error *err);

/* ---- fold.c ---- */
qn_status qn__fold_node(void *sched, const qn_node *n, void *dst, qn_error *err);

/* ---- exec.c ---- */
/* Optimizes, places, splits and plans e->graph. */
qn_status qn__exec_prepare(qn_sched *s, qn_exec *e, bool dry, qn_error *err);
qn_status qn__exec_store_constants(qn_exec *e, qn_error *err);
/* Compiles every segment against the scheduler's present buffers; on failure the exec is as it was. */
qn_status qn__exec_compile(qn_exec *e, qn_error *err);
bool qn__exec_is_stale(const qn_exec *e); /* the scheduler's buffers have grown since */
void qn__exec_refresh(qn_exec *e);        /* uses those from now on, so that the smaller ones can go */
void qn__exec_destroy(void *exec);
/* A node in hand belongs to e; what: "input", in the message. */
qn_status qn__exec_check_mine(const qn_exec *e, const char *what, const qn_node *n, qn_error *err);
/* Addresses are read again from the nodes. */
void qn__exec_rebind_programs(qn_exec *e, qn_activations *const *activations);

/* ---- run.c ---- */
/* Memory to gather inputs in, by the layout of a graph that is compiled; the old one goes. */
qn_status qn__inputs_init(qn_exec *e, qn_error *err);
void qn__inputs_deinit(qn_exec *e);

/* ---- trace.c ---- */
/* A run that is recorded; ring NULL: it isn't. */
typedef struct qn_exec_recording {
    qn_trace_ring *ring;
    qn_run run; /* what the caller gave, and that it is recorded */
    qn_trace_run trace;
    uint64_t begin;
} qn_exec_recording;
/* Writes down the plan when it is the first time, and the step; the run to make then. */
const qn_run *qn__exec_record(qn_exec *e, const qn_run *run, qn_exec_recording *out);
void qn__exec_recorded(qn_exec *e, qn_exec_recording *recording);
void qn__exec_record_transfer(const qn_node *node, const qn_trace_run *trace, uint64_t begin);
/* Where a value lies. */
qn_buffer *qn__exec_memory(const qn_exec *e, const qn_node *n, uint64_t *offset);
void qn__activations_release(qn_activations *a);

#endif
