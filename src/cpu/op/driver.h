/* SPDX-License-Identifier: MIT */
/* src/cpu/op/driver.h -- what an op driver implements and what it is given.
 *
 * A driver is one file, op/FOLDER/NAME.c. It says whether it accepts a node, how many independent work items the
 * node has, how much scratch memory it needs, and computes items [begin, end). Work items may be divided among
 * threads in any way: the result is the same to the bit. */
#ifndef QN_CPU_OP_DRIVER_H
#define QN_CPU_OP_DRIVER_H

#include "backend/backend.h"
#include "base/thread.h"
#include "cpu/dispatch.h"

/* Where a value lies while a program runs. */
typedef struct qn_view {
    uint8_t *data; /* element [0,0,..] */
    qn_dtype dtype;
    qn_layout layout; /* offset already applied */
} qn_view;

/* An index out of range, or a value without a result, that a run met. The one with the lowest (at, dim, index) is
 * kept, so that the report does not depend on which thread came first. */
typedef struct qn_fault {
    _Atomic int32_t at; /* qn_task.at; INT32_MAX: none */
    _Atomic int32_t busy;
    const char *call, *what; /* what: of a value; NULL: of an index */
    int64_t index, size;
    int32_t dim;
    bool stopped; /* by a tap: nothing is wrong */
} qn_fault;

/* Beside the tile, which a product's kernel takes whole. */
#define QN_TASK_SIDE_BYTES (64 * 1024)

typedef struct qn_task {
    const qn_node *node;
    const void *attrs;
    qn_view dst, src[QN_MAX_SRC];
    int n_src;
    uint8_t *scratch; /* the node's, shared by its threads */
    float *tile;      /* this thread's memory: QN_MM_TILE_BYTES, and QN_TASK_SIDE_BYTES behind that */
    const qn_kernels *kernels;
    qn_fault *fault;
    int32_t at;         /* number of this phase among the phases of all steps */
    int phase;          /* phases of an op run one after the other, with a barrier between */
    int64_t begin, end; /* items of this phase */
    int n_members;      /* threads that share the work; results must not depend on it */
} qn_task;

typedef struct qn_cpu_op {
    qn_op op;
    bool (*accepts)(const qn_kernels *kernels, const qn_node *node, qn_error *err);
    uint64_t (*scratch)(const qn_kernels *kernels, const qn_node *node); /* NULL: none */
    int n_phases;                                                        /* at least 1 */
    /* *chunk: how many items are worth handing out at a time */
    int64_t (*items)(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk);
    void (*run)(const qn_task *task);
} qn_cpu_op;

/* Permutes work items so that each thread gets a contiguous range and can prefetch its next item: threads take items
 * 0, 1, 2 .. in turn, and item i becomes place i / n_members of the range of member i % n_members. The item before
 * it in its range was done by the same thread, unless item < n_members. */
static inline int64_t qn__in_ranges(int64_t item, int64_t n, int n_members)
{
    const int64_t each = n / n_members, more = n % n_members;
    const int64_t round = each > 0 && item < each * n_members ? item / n_members : each,
                  member = item - round * n_members;
    return member * each + (member < more ? member : more) + round;
}

/* Reports an index out of range in a strict node. The run ends at the next barrier. */
void qn__bad_index(const qn_task *t, int32_t strict, int dim, int64_t index, int64_t size);
/* Or a value that it has no result for; `what` is a constant. */
void qn__bad_value(const qn_task *t, int32_t strict, const char *what);

/* NULL for leaves, views and transfers. Every compute or update row of ops.def has a driver, or the program does not
 * link. */
const qn_cpu_op *qn__cpu_op(qn_op op);

/* Would all phases but the last of `a` and of `b` write the same to scratch? Both are nodes of one op with the same
 * source 0. */
typedef bool (*qn_cpu_shares_fn)(const qn_kernels *kernels, const qn_node *a, const qn_node *b);
/* NULL for ops that never share. */
qn_cpu_shares_fn qn__cpu_shares(qn_op op);

#endif
