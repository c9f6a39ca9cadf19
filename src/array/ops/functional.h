/* SPDX-License-Identifier: MIT */
/* src/array/ops/functional.h -- what layers and losses on handles share. */
#ifndef QN_ARRAY_FUNCTIONAL_H
#define QN_ARRAY_FUNCTIONAL_H

#include "array/array.h"

/* What an operation with rows of its own computes x in: F64 or F32. */
qn_dtype qn__fused_dtype(const qn_tensor *x);
bool qn__is_real_tensor(const char *name, const char *what, const qn_tensor *t);
/* Applies op to sources converted to that dtype (ids are not), their rows made dense. */
qn_tensor *qn__fused(qn_op op, const void *attrs, qn_tensor *const *src, int n_src, qn_dtype dtype);
/* y in that dtype; y itself is let go. */
qn_tensor *qn__given(qn_tensor *y, qn_dtype dtype);

/* qn_rope with all that the operation can do. */
qn_tensor *qn__rope_by(qn_tensor *x, qn_tensor *positions, qn_tensor *factors, const qn_rope_attrs *attrs);

#endif
