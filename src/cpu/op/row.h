/* SPDX-License-Identifier: MIT */
/* src/cpu/op/row.h -- a value as rows along its last dimension: where row r starts, and converting rows to and from
 * float32. Rows are numbered over all leading dimensions in row-major order; rank 0 is one row of one element. */
#ifndef QN_CPU_OP_ROW_H
#define QN_CPU_OP_ROW_H

#include "cpu/op/driver.h"

static inline int64_t qn__row_size(const qn_layout *l) { return l->rank ? l->dim[l->rank - 1] : 1; }
/* Stride between neighbours in a row, in elements; 1 where a row has a single one. */
static inline int64_t qn__row_step(const qn_layout *l)
{
    return l->rank && l->dim[l->rank - 1] > 1 ? l->stride[l->rank - 1] : 1;
}
int64_t qn__row_count(const qn_layout *l);
int64_t qn__row_start(const qn_layout *l, int64_t row); /* in elements */
/* Are all rows one fixed stride apart? *stride in elements (0 for a single row). */
bool qn__rows_uniform(const qn_layout *l, int64_t *stride);

static inline int64_t qn__elems_bytes(qn_dtype dtype, int64_t elems) /* elems: a multiple of the block, of any sign */
{
    const qn_dtype_info *d = qn_dtype_get(dtype);
    return elems / d->block_elems * d->block_bytes;
}
static inline uint8_t *qn__row_at(const qn_view *v, int64_t row)
{
    return v->data + qn__elems_bytes(v->dtype, qn__row_start(&v->layout, row));
}
static inline float *qn__row_f32(const qn_view *v, int64_t row)
{
    return (float *)(void *)v->data + qn__row_start(&v->layout, row);
}

/* Elements [first, first + n) of a row as float32; `row` points at its element 0. In block formats step is 1, and
 * first and n are multiples of the block. */
void qn__row_load(const qn_kernels *kernels, qn_dtype dtype, const uint8_t *row, int64_t step, int64_t first, int64_t n,
                  float *dst);
bool qn__row_loads(const qn_kernels *kernels, qn_dtype dtype);
/* n float32 values into a dense row of `dtype`. I32 truncates and saturates. In block formats numbers that are not
 * finite become 0, since one of them would take 31 others with it. `x` may be changed. */
void qn__row_store(const qn_kernels *kernels, qn_dtype dtype, uint8_t *row, float *x, int64_t n);
bool qn__row_stores(qn_dtype dtype);

/* Copies n elements into a dense row without converting them. In block formats step is 1. */
void qn__row_move(qn_dtype dtype, uint8_t *dst, const uint8_t *row, int64_t step, int64_t n);

/* ---- conditions for accepts functions; each says in err what it found ---- */
bool qn__want_dtype(const qn_node *user, const char *what, const qn_node *n, qn_dtype dtype, qn_error *err);
/* Neighbours in a row have stride 1. */
bool qn__want_dense_rows(const qn_node *user, const char *what, const qn_node *n, qn_error *err);
/* Rows that qn__row_load reads: a dtype that it knows; blocks in dense rows that start on block borders. */
bool qn__want_loadable(const qn_kernels *kernels, const qn_node *user, const char *what, const qn_node *n,
                       qn_error *err);
bool qn__want_storable(const qn_node *user, const char *what, const qn_node *n, qn_error *err);

/* How many rows make about `work` elements. */
static inline int64_t qn__chunk_of(int64_t work, int64_t row) { return row >= work ? 1 : work / (row > 0 ? row : 1); }

#endif
