/* SPDX-License-Identifier: MIT */
/* src/tensor/shape.h -- what the files of this room share. */
#ifndef QN_TENSOR_SHAPE_H
#define QN_TENSOR_SHAPE_H

#include <quern/tensor.h>

#define QN_MAX_NUMEL  (INT64_C(1) << 62)
#define QN_SHAPE_TEXT 192 /* eight 20-character numbers, commas, brackets, terminator, and some air */

/* Of `rank` dimensions, as qn_shape_numel. */
int64_t qn__dims_product(int rank, const int64_t *dim);
/* Rank 0 to 8, no negative dimension, at most QN_MAX_NUMEL elements even when empty dimensions are read as 1. */
bool qn__shape_ok(const qn_shape *s);

/* A dimension argument brought into 0 .. rank-1 (a scalar has one imaginary dimension, as in PyTorch, when scalar_ok).
 */
qn_status qn__dim_index(const char *op, const qn_layout *in, int dim, bool scalar_ok, int *out, qn_error *err);
/* base + steps * stride, saturating: a bounds check must fail, not wrap, for strides that somebody made up. */
int64_t qn__add_reach(int64_t base, int64_t steps, int64_t stride);
/* Refuses layouts that no function of this room would have made. */
qn_status qn__layout_check(const char *op, const qn_layout *in, qn_error *err);
/* "[2,3,4]" of a layout; returns buf. */
const char *qn__layout_print(const qn_layout *layout, char buf[QN_SHAPE_TEXT]);

#endif
