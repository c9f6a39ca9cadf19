/* SPDX-License-Identifier: MIT */
/* src/graph/ops/index.h -- indexing, joining, sorting, padding, writing into parts, random numbers: attributes and
 * builders. Included by graph.h.
 *
 * Indices are I64 or I32, any strides. One that is out of range (a negative one is) reads as zero and writes nothing,
 * unless the node is strict: then the run ends there with an error, and no later node is computed. qn__flat_index gives
 * negative indices their meaning from the end, unless its node says from_start. Where several elements are written to
 * one place, they are taken in the order of the index. */
#ifndef QN_GRAPH_OPS_INDEX_H
#define QN_GRAPH_OPS_INDEX_H

#include "graph/graph.h"

/* How a written element meets what is there. */
#define QN_COMBINE_ROWS(ROW) ROW(set) ROW(add) ROW(mul) ROW(max) ROW(min)
typedef enum qn_combine {
/* clang-format off */
#define QN_COMBINE_ENUM(name) QN_COMBINE_##name,
    QN_COMBINE_ROWS(QN_COMBINE_ENUM)
#undef QN_COMBINE_ENUM
    QN_COMBINE_COUNT
    /* clang-format on */
} qn_combine;
const char *qn__combine_name(int32_t mode);

/* On whose behalf a node is strict: the name in the error. self: the op's own. */
/* clang-format off */
#define QN_STRICT_ROWS(ROW) \
    ROW(gather) ROW(scatter) ROW(scatter_add) ROW(index_select) ROW(index_add) ROW(index_copy) ROW(index) \
    ROW(index_put) ROW(embedding) \
    ROW(embedding_bag) ROW(cross_entropy) ROW(bernoulli) \
    ROW(binary_cross_entropy) ROW(self)
/* clang-format on */
typedef enum qn_strict {
    QN_STRICT_not,
/* clang-format off */
#define QN_STRICT_ENUM(name) QN_STRICT_##name,
    QN_STRICT_ROWS(QN_STRICT_ENUM)
#undef QN_STRICT_ENUM
    QN_STRICT_COUNT
    /* clang-format on */
} qn_strict;
const char *qn__strict_name(int32_t strict);
/* Can the values that this node is given end a run? */
bool qn__may_stop(const qn_node *n);

/* mode: scatter and index_add only */
typedef struct qn_index_attrs {
    int32_t dim, mode, strict, pad_;
} qn_index_attrs;
typedef struct qn_flat_attrs {
    int64_t size[QN_MAX_SRC];
    int32_t strict, from_start; /* from_start: negative ids are out of range too */
} qn_flat_attrs;
typedef struct qn_empty_attrs {
    int64_t dim[QN_MAX_RANK];
    int32_t rank, dtype, serial, pad_;
} qn_empty_attrs;
typedef struct qn_strided_attrs {
    qn_layout layout;
    int32_t mode, pad_;
} qn_strided_attrs;
typedef struct qn_tri_attrs {
    int64_t diagonal;
    int32_t upper, pad_;
} qn_tri_attrs;
typedef struct qn_sort_attrs {
    int64_t k;
    int32_t dim, descending;
} qn_sort_attrs; /* k: topk only */
typedef struct qn_pad_attrs {
    int64_t before[QN_MAX_RANK], after[QN_MAX_RANK];
    double value;
} qn_pad_attrs;
typedef enum qn_pad_mode { QN_PAD_reflect, QN_PAD_replicate, QN_PAD_circular } qn_pad_mode;
typedef struct qn_pad_index_attrs {
    int64_t n, before, after;
    int32_t mode, pad_;
} qn_pad_index_attrs;
/* uniform: [a, b). normal: mean a, deviation b. integer: a to b - 1, both whole and within 2^53. bernoulli: b with
 * probability a, else 0 (dropout's mask is b = 1/a). bits: all bits of an integer. */
typedef enum qn_random_kind {
    QN_RANDOM_uniform,
    QN_RANDOM_normal,
    QN_RANDOM_integer,
    QN_RANDOM_bernoulli,
    QN_RANDOM_bits
} qn_random_kind;
typedef struct qn_random_attrs {
    int64_t dim[QN_MAX_RANK];
    double a, b;
    int32_t rank, dtype, kind, stream;
} qn_random_attrs;

/* ---- reading ---- */
/* y[i,j,k] = x[ids[i,j,k],j,k] for dim 0; ids may be smaller than x in the other dimensions. */
qn_node *qn__gather(qn_graph *g, qn_node *x, int dim, qn_node *ids);
/* y[..,i,..] = x[..,ids[i],..]; ids a vector or a scalar. */
qn_node *qn__index_select(qn_graph *g, qn_node *x, int dim, qn_node *ids);
/* One index into the row-major elements of `size` from one index a dimension; ids broadcast, negative ones count from
 * the end; -1 where one is out of range. I64. */
qn_node *qn__flat_index(qn_graph *g, qn_node *const *ids, const int64_t *size, int n);
qn_node *qn__tri(qn_graph *g, qn_node *x, int64_t diagonal, bool upper); /* the other triangle is 0 */

/* ---- writing: results are new values; x's memory is reused where nobody else reads it ---- */
/* y = x, then y[ids[i,j,k],j,k] op= src[i,j,k] for dim 0 */
qn_node *qn__scatter(qn_graph *g, qn_node *x, int dim, qn_node *ids, qn_node *src, qn_combine mode);
/* y = x, then y[..,ids[i],..] op= src[..,i,..] */
qn_node *qn__index_add(qn_graph *g, qn_node *x, int dim, qn_node *ids, qn_node *src, qn_combine mode);
/* y = dst as a dense tensor, then the elements at `layout` (over y's row-major elements; no element twice) op= x, of
 * one shape with layout. Generalises writes through any view. */
qn_node *qn__strided_update(qn_graph *g, qn_node *dst, qn_node *x, const qn_layout *layout, qn_combine mode);
/* dst, a view of a mutable param, = x of the same shape and dtype. An update node. */
qn_node *qn__assign(qn_graph *g, qn_node *dst, qn_node *x);

/* ---- joining ---- */
qn_node *qn__empty(qn_graph *g, qn_dtype dtype, qn_shape shape); /* values undefined: to be written all over */
/* Any number of tensors of one dtype, alike but for `dim`; each element is copied once. */
qn_node *qn__cat(qn_graph *g, qn_node *const *x, int n, int dim);

/* ---- order ---- */
/* I64 places along dim, equal elements in order of place, NaN as the greatest. Values: qn__gather. */
qn_node *qn__argsort(qn_graph *g, qn_node *x, int dim, bool descending);
/* The places of the k largest (or smallest), best first; equal ones in order of place. */
qn_node *qn__topk(qn_graph *g, qn_node *x, int64_t k, int dim, bool largest);

/* ---- padding: before and after by dimension of x; negative ones crop ---- */
qn_node *qn__pad(qn_graph *g, qn_node *x, const int64_t *before, const int64_t *after, double value);
/* I64 [before + n + after] */
qn_node *qn__pad_index(qn_graph *g, int64_t n, int64_t before, int64_t after, qn_pad_mode mode);

/* ---- random numbers: Philox 4x32-10 ---- */
/* state: I64 [2], seed and offset. Element i takes its numbers from counter offset + i / 4 (i / 2 for 8-byte elements)
 * of stream `stream`: results depend on nothing else. Advance offset by at least that between draws, or give each draw
 * its own stream. */
qn_node *qn__random(qn_graph *g, qn_node *state, qn_random_kind kind, qn_dtype dtype, qn_shape shape, double a,
                    double b, int stream);

#endif
