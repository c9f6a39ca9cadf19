/* SPDX-License-Identifier: MIT */
/* src/graph/rules/rules.h -- what the shape rules of tensor operations ask of their sources; every message names the op
 * and what was found. */
#ifndef QN_GRAPH_RULES_OPS_H
#define QN_GRAPH_RULES_OPS_H

#include "graph/internal.h"

typedef struct qn_shape_text {
    char s[QN_SHAPE_TEXT];
} qn_shape_text;
#define SHAPE(n)          qn__layout_print(&(n)->layout, (qn_shape_text){{0}}.s)
#define SHAPE_TEXT(shape) qn_shape_print((shape), (qn_shape_text){{0}}.s, QN_SHAPE_TEXT)
#define OP(n)             (qn__op_info((n)->op)->name)
#define DTYPE(d)          (qn_dtype_get(d)->name)

static inline qn_dtype_class rule_class(const qn_node *n) { return qn_dtype_get(n->dtype)->class_; }
static inline int64_t rule_last(const qn_node *n) { return n->layout.dim[n->layout.rank - 1]; }

/* Row-major, of that dtype; refuses what a byte count cannot hold. */
static inline qn_status rule_dense(qn_node *n, qn_dtype dtype, const qn_shape *shape, qn_error *err)
{
    if ((unsigned)dtype >= QN_DTYPE_COUNT)
        return QN_FAIL(err, invalid, "%s: dtype %d does not exist", OP(n), (int)dtype);
    n->dtype = dtype;
    QN_TRY(qn_layout_contiguous(shape, &n->layout, err));
    if (qn__node_bytes(n) < 0)
        return QN_FAIL(err, limit, "%s: %s %s takes more than 2^63 bytes", OP(n), DTYPE(dtype), SHAPE(n));
    return QN_OK;
}

static inline qn_status rule_like(qn_node *n, const qn_node *like, qn_error *err)
{
    const qn_shape shape = qn_layout_shape(&like->layout);
    return rule_dense(n, like->dtype, &shape, err);
}

static inline qn_status rule_real(const qn_node *n, int i, const char *what, qn_error *err)
{
    if (rule_class(n->src[i]) == QN_CLASS_real) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, a real type expected%s", OP(n), what, DTYPE(n->src[i]->dtype),
                   rule_class(n->src[i]) == QN_CLASS_block ? "; dequantize it first" : "");
}

/* Not a block format: elements are elements. */
static inline qn_status rule_plain(const qn_node *n, int i, const char *what, qn_error *err)
{
    if (rule_class(n->src[i]) != QN_CLASS_block) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, not a block format expected; dequantize it first", OP(n), what,
                   DTYPE(n->src[i]->dtype));
}

static inline qn_status rule_ids(const qn_node *n, int i, const char *what, qn_error *err)
{
    const qn_dtype d = n->src[i]->dtype;
    if (d == QN_DTYPE_I64 || d == QN_DTYPE_I32) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, I64 or I32 expected", OP(n), what, DTYPE(d));
}

static inline qn_status rule_same_dtype(const qn_node *n, int i, int j, qn_error *err)
{
    if (n->src[i]->dtype == n->src[j]->dtype) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s and %s, one dtype expected", OP(n), DTYPE(n->src[i]->dtype),
                   DTYPE(n->src[j]->dtype));
}

static inline qn_status rule_rank(const qn_node *n, int i, const char *what, int lo, int hi, qn_error *err)
{
    const int rank = n->src[i]->layout.rank;
    if (rank >= lo && rank <= hi) return QN_OK;
    if (lo == hi) {
        return QN_FAIL(err, invalid, "%s: %s is %s, %d dimension%s expected", OP(n), what, SHAPE(n->src[i]), lo,
                       lo == 1 ? "" : "s");
    }
    return QN_FAIL(err, invalid, "%s: %s is %s, %d to %d dimensions expected", OP(n), what, SHAPE(n->src[i]), lo, hi);
}

static inline qn_status rule_shape(const qn_node *n, int i, const char *what, const qn_shape *want, qn_error *err)
{
    const qn_shape have = qn_layout_shape(&n->src[i]->layout);
    if (qn_shape_equal(&have, want)) return QN_OK;
    return QN_FAIL(err, invalid, "%s: %s is %s, %s expected", OP(n), what, SHAPE(n->src[i]), SHAPE_TEXT(want));
}

/* dim counts from the start; a scalar has one imaginary dimension. */
static inline qn_status rule_dim(const qn_node *n, int i, int dim, qn_error *err)
{
    const int rank = n->src[i]->layout.rank;
    if (dim >= 0 && dim < (rank > 0 ? rank : 1)) return QN_OK;
    return QN_FAIL(err, invalid, "%s: dimension %d of %s does not exist", OP(n), dim, SHAPE(n->src[i]));
}

/* A builder's dim argument: negative ones count from the end; what is still out of range, the rule refuses. */
static inline int rule_from_end(const qn_graph *g, const qn_node *x, int dim)
{
    if (dim >= 0 || g->error.status != QN_OK || x == NULL) return dim;
    return dim + (x->layout.rank > 0 ? x->layout.rank : 1);
}

#endif
