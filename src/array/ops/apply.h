/* SPDX-License-Identifier: MIT */
/* src/array/ops/apply.h -- what the public operations are made of: conversion to the type that an op computes in, then
 * qn__apply. */
#ifndef QN_ARRAY_APPLY_H
#define QN_ARRAY_APPLY_H

#include "array/array.h"
#include <quern/ops.h>

typedef enum qn_types {
    QN_TYPES_arith,
    QN_TYPES_quotient,
    QN_TYPES_power,
    QN_TYPES_divide,
    QN_TYPES_compare,
    QN_TYPES_bits,
    QN_TYPES_same,
    QN_TYPES_count,
    QN_TYPES_real,
    QN_TYPES_truth
} qn_types;

/* How a result is delivered: into `out`, in place or not, or as a new tensor when `out` is NULL. */
typedef struct qn_target {
    qn_tensor *out;
    bool in_place;
} qn_target;

/* src[i] in that dtype: itself, or a conversion that goes to made[i], to be released after use. False on failure. */
bool qn__convert(qn_tensor **src, int n, qn_dtype dtype, qn_tensor **made);
/* Finds the type of the row, converts and applies. */
qn_tensor *qn__compute(qn_op op, qn_types types, const void *attrs, qn_target target, qn_tensor *const *src, int n_src);
/* The same with a number as the second source. */
qn_tensor *qn__compute_number(qn_op op, qn_types types, const void *attrs, qn_target target, qn_tensor *a, double b);
/* Conversion as an operation: with a gradient. t itself when that is its dtype. */
qn_tensor *qn__cast(qn_tensor *t, qn_dtype dtype);
/* The same tensor under another handle, gradient and all. */
qn_tensor *qn__again(qn_tensor *t);
/* The values of `from` into a storage of as many elements that has memory, whose context may be another one; by the
 * host where neither memory is the host's. */
bool qn__carry(qn_storage *to, qn_tensor *from);
/* Sources as they are, each of the dtype that the op wants there. */
qn_tensor *qn__plain(qn_op op, const void *attrs, qn_target target, qn_tensor *const *src, int n_src);
/* An op without sources, on that device. */
qn_tensor *qn__source(qn_context *ctx, int place, qn_op op, const void *attrs);
/* dim of t from 0 on, where a scalar has an imaginary dimension 0; -1 and an error when there is none. */
int qn__dim_of(const char *name, const qn_tensor *t, int dim);
/* The shape in words; the text lives as long as the block. */
#define QN_TEXT_OF(t) qn__text_of((t), (char[192]){0})
const char *qn__text_of(const qn_tensor *t, char *text);

#endif
