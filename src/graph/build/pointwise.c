/* SPDX-License-Identifier: MIT */
/* src/graph/build/pointwise.c -- builders of the operations element by element, see ops_pointwise.h. */
#include "graph/internal.h"

#include <math.h>

qn_node *qn__unary(qn_graph *g, qn_op op, qn_node *x) { return qn__op(g, op, NULL, &x, 1); }
qn_node *qn__binary(qn_graph *g, qn_op op, qn_node *a, qn_node *b)
{
    return qn__op(g, op, NULL, (qn_node *[]){a, b}, 2);
}

qn_value_attrs qn__value(double x)
{
    /* 2^63 is the least double that no int64_t holds; NaN compares false and becomes 0 */
    const int64_t whole = x >= 0x1p63 ? INT64_MAX : x >= -0x1p63 ? (int64_t)x : x < 0 ? INT64_MIN : 0;
    return (qn_value_attrs){x == 0 ? 0 : x, whole}; /* one zero, or bytes of equal attributes would differ */
}

qn_value_attrs qn__value_int(int64_t x) { return (qn_value_attrs){(double)x, x}; }

qn_node *qn__clamp(qn_graph *g, qn_node *x, double min, double max)
{
    return qn__op(g, QN_OP_clamp, &(qn_clamp_attrs){min, max}, &x, 1);
}

static int64_t within(double x, int64_t least, int64_t most)
{
    return x >= (double)most ? most : x <= (double)least ? least : (int64_t)x;
}

void qn__clamp_bounds(const qn_clamp_attrs *attrs, qn_dtype dtype, int64_t *lo, int64_t *hi)
{
    const bool is_unsigned = dtype == QN_DTYPE_U8;
    const int64_t most = INT64_MAX >> (64 - 8 * qn_dtype_get(dtype)->block_bytes - is_unsigned);
    const int64_t least = is_unsigned ? 0 : -most - 1;
    *lo = within(ceil(attrs->min), least, most);
    *hi = within(floor(attrs->max), least, most);
}

qn_node *qn__gelu(qn_graph *g, qn_node *x, bool tanh) { return qn__op(g, QN_OP_gelu, &(qn_gelu_attrs){tanh}, &x, 1); }

qn_node *qn__elu(qn_graph *g, qn_node *x, double alpha)
{
    const qn_value_attrs attrs = qn__value(alpha);
    return qn__op(g, QN_OP_elu, &attrs, &x, 1);
}

qn_node *qn__leaky_relu(qn_graph *g, qn_node *x, double slope)
{
    const qn_value_attrs attrs = qn__value(slope);
    return qn__op(g, QN_OP_leaky_relu, &attrs, &x, 1);
}

qn_node *qn__softplus(qn_graph *g, qn_node *x, double beta, double threshold)
{
    return qn__op(g, QN_OP_softplus, &(qn_softplus_attrs){beta, threshold}, &x, 1);
}

qn_node *qn__where(qn_graph *g, qn_node *cond, qn_node *a, qn_node *b)
{
    return qn__op(g, QN_OP_where, NULL, (qn_node *[]){cond, a, b}, 3);
}

qn_node *qn__masked_fill(qn_graph *g, qn_node *x, qn_node *mask, qn_value_attrs value)
{
    return qn__op(g, QN_OP_masked_fill, &value, (qn_node *[]){x, mask}, 2);
}

qn_node *qn__lerp(qn_graph *g, qn_node *a, qn_node *b, qn_node *weight)
{
    return qn__op(g, QN_OP_lerp, NULL, (qn_node *[]){a, b, weight}, 3);
}

qn_node *qn__addcmul(qn_graph *g, qn_node *x, qn_node *a, qn_node *b, qn_value_attrs value)
{
    return qn__op(g, QN_OP_addcmul, &value, (qn_node *[]){x, a, b}, 3);
}

qn_node *qn__addcdiv(qn_graph *g, qn_node *x, qn_node *a, qn_node *b, qn_value_attrs value)
{
    return qn__op(g, QN_OP_addcdiv, &value, (qn_node *[]){x, a, b}, 3);
}

qn_node *qn__full(qn_graph *g, qn_dtype dtype, const qn_shape *shape, qn_value_attrs value)
{
    qn_full_attrs attrs = {.dtype = (int32_t)dtype, .rank = shape->rank, .value = value.value, .whole = value.whole};
    for (int i = 0; i < shape->rank && i < QN_MAX_RANK; i++) attrs.dim[i] = shape->dim[i];
    return qn__op(g, QN_OP_full, &attrs, NULL, 0);
}

qn_node *qn__arange(qn_graph *g, qn_dtype dtype, int64_t n, qn_value_attrs start, qn_value_attrs step)
{
    const qn_arange_attrs attrs = {(int32_t)dtype, 0, n, start.value, step.value, start.whole, step.whole};
    return qn__op(g, QN_OP_arange, &attrs, NULL, 0);
}
