/* SPDX-License-Identifier: MIT */
/* src/cpu/op/driver.h -- inside the CPU backend: the op table, tasks, and how a node's work is cut over threads.
 *
 * An op driver is one file, op/NAME.c: it says whether it takes a node, how many independent items of work the node is,
 * how much scratch it needs, and computes items [begin, end). Items are cut over threads in any way without changing a
 * bit of the result. */
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

/* What a run found wrong with the values that it was given. Of the first node with such a value the least is kept, so
 * that it does not depend on who came first. */
typedef struct qn_fault {
    _Atomic int32_t at; /* qn_task.at; INT32_MAX: none */
    _Atomic int32_t busy;
    const char *call, *what; /* what: of a value; NULL: of an index */
    int64_t index, size;
    int32_t dim;
} qn_fault;

typedef struct qn_task {
    const qn_node *node;
    const void *attrs;
    qn_view dst, src[QN_MAX_SRC];
    int n_src;
    uint8_t *scratch; /* node's own, shared by the threads */
    float *tile;      /* this thread's QN_MM_TILE_BYTES */
    const qn_kernels *kernels;
    qn_fault *fault;
    int32_t at;         /* counts the phases of all steps of a program */
    int phase;          /* ops with several phases run them one after the other, a barrier between */
    int64_t begin, end; /* items of this phase */
    int n_members;      /* threads that share it; nothing that is computed may depend on it */
} qn_task;

typedef struct qn_cpu_op {
    qn_op op;
    bool (*accepts)(const qn_kernels *kernels, const qn_node *node, qn_error *err);
    uint64_t (*scratch)(const qn_kernels *kernels, const qn_node *node); /* NULL: none */
    int n_phases;                                                        /* at least 1 */
    /* chunk: how many at once pay */
    int64_t (*items)(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk);
    void (*run)(const qn_task *task);
} qn_cpu_op;

/* Items of n in another order. Threads at the same pace take items in turn; so each has a stretch of neighbours of its
 * own, and may ask memory ahead for what its next item reads. An item has its neighbour before it in its stretch unless
 * item < n_members. */
static inline int64_t qn__in_stretches(int64_t item, int64_t n, int n_members)
{
    const int64_t each = n / n_members, more = n % n_members;
    const int64_t round = each > 0 && item < each * n_members ? item / n_members : each,
                  member = item - round * n_members;
    return member * each + (member < more ? member : more) + round;
}

/* A driver of a strict node has met this index. Nothing that comes after this will run. */
void qn__bad_index(const qn_task *t, int32_t strict, int dim, int64_t index, int64_t size);
/* Or a value that it has no result for; `what` is a constant. */
void qn__bad_value(const qn_task *t, int32_t strict, const char *what);

/* NULL for leaves, views and transfers; every compute or update row of ops.def has one, or the program does not link.
 */
const qn_cpu_op *qn__cpu_op(qn_op op);

/* Phase 0 of `a` leaves in its scratch just what phase 0 of `b` would, both nodes of one op and their source 0 the
 * same. */
typedef bool (*qn_cpu_shares_fn)(const qn_kernels *kernels, const qn_node *a, const qn_node *b);
/* NULL for ops where it never does. */
qn_cpu_shares_fn qn__cpu_shares(qn_op op);

#endif
