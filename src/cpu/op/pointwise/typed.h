/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/typed.h -- what drivers that move, combine and order elements of any plain dtype need, one
 * row a dtype; and questions about layouts that they share. A run is `n` elements with stride `step`; only y may
 * overlap with itself. */
#ifndef QN_CPU_OP_TYPED_H
#define QN_CPU_OP_TYPED_H

#include "cpu/op/row.h"

#include <string.h>

/* ROW(dtype, stored type, type to compute in, to it, from it, key) */
/* clang-format off */
#define QN_TYPED_ROWS(ROW) \
    ROW(F32,  float,    float,   QN_SAME,          QN_SAME,          key_f32) \
    ROW(F64,  double,   double,  QN_SAME,          QN_SAME,          key_f64) \
    ROW(F16,  uint16_t, float,   qn__f16_to_f32,   qn__f32_to_f16,   key_f32) \
    ROW(BF16, uint16_t, float,   qn__bf16_to_f32,  qn__f32_to_bf16,  key_f32) \
    ROW(I8,   int8_t,   int8_t,  QN_SAME,          QN_SAME,          key_int) \
    ROW(I16,  int16_t,  int16_t, QN_SAME,          QN_SAME,          key_int) \
    ROW(I32,  int32_t,  int32_t, QN_SAME,          QN_SAME,          key_int) \
    ROW(I64,  int64_t,  int64_t, QN_SAME,          QN_SAME,          key_int) \
    ROW(U8,   uint8_t,  uint8_t, QN_SAME,          QN_SAME,          key_int)
/* clang-format on */
#define QN_SAME(x) (x)

typedef struct qn_typed {
    /* y[i] = y[i] op x[i]; sums and products of integers wrap; the greater of NaN and a number is NaN; BOOL: or, and,
     * or, and */
    void (*combine[QN_COMBINE_COUNT])(void *y, int64_t y_step, const void *x, int64_t x_step, int64_t n);
    /* y[at[i]] = y[at[i]] op x[i], in order; at[i] < 0 is skipped */
    void (*scatter[QN_COMBINE_COUNT])(void *y, const int64_t *at, const void *x, int64_t x_step, int64_t n);
    /* Unsigned numbers in the order of the elements, NaN above all. */
    void (*keys)(uint64_t *key, const void *x, int64_t x_step, int64_t n);
    /* For integers only: as int64, and back with wrapping. */
    void (*widen)(int64_t *y, const void *x, int64_t x_step, int64_t n);
    void (*narrow)(void *y, const int64_t *x, int64_t n);
    void (*put)(void *y, double value); /* one element */
} qn_typed;
/* All zero for block formats. */
const qn_typed *qn__typed(qn_dtype dtype);
bool qn__want_plain(const qn_node *user, const char *what, const qn_node *n, qn_error *err);
bool qn__want_real(const qn_node *user, const char *what, const qn_node *n, qn_error *err);

static inline int64_t qn__elem_bytes(qn_dtype dtype) { return qn_dtype_get(dtype)->block_bytes; }
static inline uint8_t *qn__elem_at(const qn_view *v, int64_t at) { return v->data + at * qn__elem_bytes(v->dtype); }

/* A run of elements as they are, any steps. */
void qn__move(int64_t elem_bytes, void *y, int64_t y_step, const void *x, int64_t x_step, int64_t n);
/* y[i] = x[at[i]], zero where at[i] < 0 */
void qn__pick(int64_t elem_bytes, void *y, const void *x, const int64_t *at, int64_t n);

/* Element `at` of an index tensor, I64 or I32. */
static inline int64_t qn__index_at(const qn_view *v, int64_t at)
{
    if (v->dtype == QN_DTYPE_I64) {
        int64_t i;
        memcpy(&i, v->data + at * 8, 8);
        return i;
    }
    int32_t i;
    memcpy(&i, v->data + at * 4, 4);
    return i;
}

/* Reports those of the first n indices that are not in [0, size). Strict nodes only, and only when there is one. */
void qn__report_indices(const qn_task *t, int32_t strict, int dim, const qn_view *ids, int64_t start, int64_t step,
                        int64_t n, int64_t size);

/* at[i] = index times scale, or -1 where the index is out of range. Is any out of range? */
static inline bool qn__places(int64_t *at, const qn_view *ids, int64_t start, int64_t step, int64_t n, int64_t size,
                              int64_t scale)
{
    int64_t all = 0; /* negative when one is */
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = qn__index_at(ids, start + i * step);
        at[i] = id >= 0 && id < size ? id * scale : -1;
        all |= at[i];
    }
    return all < 0;
}

/* Rows of a result that starts as a copy of source 0, which may be the same memory: then there is nothing to do. */
int64_t qn__copied_rows(const qn_node *node, int64_t *chunk);
void qn__copy_rows(const qn_task *t);

/* The index of a row in each dimension but the last. */
void qn__row_coords(const qn_layout *l, int64_t row, int64_t at[QN_MAX_RANK]);

#endif
