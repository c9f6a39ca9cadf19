/* SPDX-License-Identifier: MIT */
/* src/array/autograd/tape.h -- how a value was made, for backward. */
#ifndef QN_ARRAY_TAPE_H
#define QN_ARRAY_TAPE_H

#include "array/array.h"

#define QN_TAPE_ATTRS 24 /* words; the largest attribute struct, a view's layout, takes 19 */

typedef struct qn_edge {
    qn_auto *to;      /* whose gradient this contributes to; NULL: nobody's */
    qn_storage *kept; /* the value, where the op's row keeps it */
    uint32_t version; /* it must still have */
    qn_dtype dtype;
    int32_t place;    /* its device */
    qn_layout layout; /* of the value; its shape counts even when nothing is kept */
} qn_edge;

/* What backward has done about an entry's gradient: while it runs. */
typedef enum qn_delivery { QN_DELIVERED_none, QN_DELIVERED_new, QN_DELIVERED_sum } qn_delivery;

/* An entry of the tape: an operation that was recorded, or a leaf that wants a gradient. The list is in order of
 * making, so every entry comes after those it needs, and walking it from the newest to the oldest is a topological
 * order. */
struct qn_auto {
    qn_context *ctx;
    qn_auto *newer, *older;
    int32_t refs; /* handles and newer entries */
    qn_op op;
    bool leaf, released, retain, keeps_result, keeps_own;
    bool again; /* a checkpoint: attrs are a qn_again, and backward records the function again */
    int n_src;
    qn_node *dy, *before; /* while backward runs: the gradient; the pending value of `grad` */
    qn_delivery delivery;
    qn_tensor *grad; /* of a leaf, or with retain */
    qn_edge y, src[QN_MAX_SRC];
    uint64_t attrs[QN_TAPE_ATTRS];
};

/* How to record a checkpoint again: the same random numbers come, and what is made lies where it lay. */
typedef struct qn_again {
    qn_tensor *(*fn)(void *arg, qn_tensor *const *inputs, int n);
    void *arg;
    uint64_t seed, drawn;
    int32_t place;
} qn_again;

/* A new entry without edges, the newest; NULL and the context's error when there is no memory. */
qn_auto *qn__auto_new(qn_context *ctx, qn_op op);
void qn__auto_edge(qn_edge *e, const qn_tensor *t, bool keep);
/* The entry after a write of what `value` (may be NULL: no gradient flows there) is about into a part of dst's storage.
 */
qn_auto *qn__auto_part(const qn_tensor *dst, qn_auto *value);
/* The entry of the whole storage that t shows a part of; NULL without. */
qn_auto *qn__auto_root(const qn_tensor *t);
void qn__auto_drop_kept(qn_auto *a);

/* ---- while backward runs: backward.c, checkpoint.c ---- */
qn_status qn__auto_step(qn_auto *a);                                   /* the gradient of a to its sources */
qn_status qn__auto_value(qn_auto *a, const qn_edge *e, qn_node **out); /* NULL for one that is not kept */
void qn__auto_add(qn_auto *to, qn_node *dx);
qn_status qn__auto_again(qn_auto *a); /* step of a checkpoint */
qn_auto *qn__auto_leaf(qn_context *ctx, const qn_tensor *t);
static inline qn_auto *qn__auto_ref(qn_auto *a) { return a->refs++, a; }

#endif
