/* SPDX-License-Identifier: MIT */
/* src/array/ops/ops.c -- the functions that the rows of quern/ops.h declare: a row there is a function here, over the
 * graph op of its name. */
#include "array/ops/apply.h"

#define QN_BINARY(name, types, text) \
    qn_tensor *qn_##name(qn_tensor *a, qn_tensor *b) \
    { \
        return qn__compute(QN_OP_##name, QN_TYPES_##types, NULL, (qn_target){0}, (qn_tensor *[]){a, b}, 2); \
    } \
    qn_tensor *qn_##name##_(qn_tensor *a, qn_tensor *b) \
    { \
        return qn__compute(QN_OP_##name, QN_TYPES_##types, NULL, (qn_target){a, true}, (qn_tensor *[]){a, b}, 2); \
    } \
    qn_tensor *qn_##name##_out(qn_tensor *out, qn_tensor *a, qn_tensor *b) \
    { \
        return out == NULL ? NULL \
                           : qn__compute(QN_OP_##name, QN_TYPES_##types, NULL, (qn_target){out, false}, \
                                         (qn_tensor *[]){a, b}, 2); \
    } \
    qn_tensor *qn_##name##_number(qn_tensor *a, double b) \
    { \
        return qn__compute_number(QN_OP_##name, QN_TYPES_##types, NULL, (qn_target){0}, a, b); \
    } \
    qn_tensor *qn_##name##_number_(qn_tensor *a, double b) \
    { \
        return qn__compute_number(QN_OP_##name, QN_TYPES_##types, NULL, (qn_target){a, true}, a, b); \
    }
QN_BINARY_ROWS(QN_BINARY)

#define QN_UNARY(name, types, text) \
    qn_tensor *qn_##name(qn_tensor *x) \
    { \
        return qn__compute(QN_OP_##name, QN_TYPES_##types, NULL, (qn_target){0}, &x, 1); \
    } \
    qn_tensor *qn_##name##_(qn_tensor *x) \
    { \
        return qn__compute(QN_OP_##name, QN_TYPES_##types, NULL, (qn_target){x, true}, &x, 1); \
    } \
    qn_tensor *qn_##name##_out(qn_tensor *out, qn_tensor *x) \
    { \
        return out == NULL ? NULL : qn__compute(QN_OP_##name, QN_TYPES_##types, NULL, (qn_target){out, false}, &x, 1); \
    }
QN_UNARY_ROWS(QN_UNARY)
