/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/numbers.h -- values of any dtype and any strides as dense runs of one of three kinds of
 * number, which is all that the kernels of tensor operations see: float for F32, F16 and BF16, double for F64,
 * int64_t for integers and BOOL (0 and 1). Narrowing wraps integers, and gives true for everything but 0. */
#ifndef QN_CPU_OP_NUMBERS_H
#define QN_CPU_OP_NUMBERS_H

#include "cpu/op/driver.h"

typedef enum qn_number { QN_NUM_f32, QN_NUM_f64, QN_NUM_i64, QN_NUM_COUNT } qn_number;
qn_number qn__number_of(qn_dtype dtype);
bool qn__number_is(qn_dtype dtype); /* the dtype is that number itself */
static inline int64_t qn__number_bytes(qn_number kind) { return kind == QN_NUM_f32 ? 4 : 8; }

/* A value as elements in row-major order: contiguous dimensions are merged, those of size 1 are dropped. */
typedef struct qn_walk {
    const uint8_t *data;
    qn_dtype dtype;
    int rank;                                      /* at least 1 */
    int64_t bytes;                                 /* of an element */
    int64_t dim[QN_MAX_RANK], stride[QN_MAX_RANK]; /* strides in elements */
} qn_walk;
qn_walk qn__walk_of(const qn_view *v);
/* that layout over v's data, its offset already applied */
qn_walk qn__walk_layout(const qn_view *v, const qn_layout *l);
qn_walk qn__walk_stretched(const qn_view *v, const qn_layout *to); /* broadcast to the shape of `to` */
static inline bool qn__walk_constant(const qn_walk *w) { return w->rank == 1 && w->stride[0] == 0; }
static inline bool qn__walk_dense(const qn_walk *w) { return w->rank == 1 && (w->stride[0] == 1 || w->dim[0] == 1); }

/* Elements [first, first + n), unconverted: in place if they are contiguous, else copied to `room`. */
const void *qn__walk_raw(const qn_walk *w, int64_t first, int64_t n, void *room);
/* The same, converted to numbers of their kind; `room` holds 2 * 8 n bytes. */
const void *qn__walk_load(const qn_kernels *kernels, const qn_walk *w, int64_t first, int64_t n, void *room);
/* Stores n dense numbers to elements [first, first + n) of a value with any strides but 0; `room` holds 8 n bytes. */
void qn__walk_store(const qn_kernels *kernels, const qn_walk *w, int64_t first, int64_t n, const void *x, void *room);

void qn__narrow_to(const qn_kernels *kernels, qn_dtype dtype, const void *x, int64_t n, void *y);

#endif
