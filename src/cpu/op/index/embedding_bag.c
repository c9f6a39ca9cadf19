/* SPDX-License-Identifier: MIT */
/* src/cpu/op/index/embedding_bag.c -- sums, means and maxima of rows of a table by bags of ids, and the gradient to
 * the table. Sums run in float32 (F64 in F64) in the order of the ids. The gradient is divided into strips of
 * columns: a thread owns its columns of every row, so that additions to one row happen in order. */
#include "cpu/op/ops.h"
#include "cpu/op/conv/planes.h"

enum { STRIP = 64 };

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_real(node, "the first source", node->src[0], err);
}

typedef struct bags {
    const qn_bag_attrs *a;
    const qn_view *ids, *offsets, *weights; /* weights NULL: none */
    int64_t n_ids, n_bags, n_rows;
} bags;

static bags bags_of(const qn_task *t, const qn_view *weights, int64_t n_rows)
{
    const qn_bag_attrs *a = t->attrs;
    return (bags){a,
                  &t->src[1],
                  &t->src[2],
                  weights,
                  t->src[1].layout.dim[0],
                  t->src[2].layout.dim[0] - (a->include_last ? 1 : 0),
                  n_rows};
}

static int64_t offset_of(const bags *b, int64_t bag)
{
    if (bag >= b->offsets->layout.dim[0]) return b->n_ids;
    const int64_t at = qn__index_at(b->offsets, bag * b->offsets->layout.stride[0]);
    return at < 0 ? 0 : at > b->n_ids ? b->n_ids : at;
}

/* -1: left out */
static int64_t id_of(const bags *b, int64_t i)
{
    const int64_t id = qn__index_at(b->ids, i * b->ids->layout.stride[0]);
    return id < 0 || id >= b->n_rows || id == b->a->padding_idx ? -1 : id;
}

/* Strict nodes: every offset and every id of the bag. */
static void look_at(const qn_task *t, const bags *b, int64_t bag)
{
    const int64_t stride = b->offsets->layout.stride[0], last = b->a->include_last ? 1 : 0;
    for (int64_t i = bag; i <= bag + last; i++) {
        const int64_t at = qn__index_at(b->offsets, i * stride);
        if (at < 0 || at > b->n_ids || (i == 0 && at != 0)) qn__bad_index(t, b->a->strict, 1, at, b->n_ids);
    }
    for (int64_t i = offset_of(b, bag), end = offset_of(b, bag + 1); i < end; i++) {
        const int64_t id = qn__index_at(b->ids, i * b->ids->layout.stride[0]);
        if (id < 0 || id >= b->n_rows) qn__bad_index(t, b->a->strict, 0, id, b->n_rows);
    }
}

static int64_t count_of(const bags *b, int64_t from, int64_t end)
{
    int64_t n = 0;
    for (int64_t i = from; i < end; i++) n += id_of(b, i) >= 0;
    return n;
}

#define BAG(dtype, S, T, to, from) \
    static void bag_##dtype(const bags *b, int64_t bag, const qn_view *table, void *y_) \
    { \
        S *y = y_; \
        const S *x = (const void *)table->data; \
        const int64_t m = table->layout.dim[1], row = table->layout.stride[0], col = table->layout.stride[1]; \
        const int64_t begin = offset_of(b, bag), end = offset_of(b, bag + 1); \
        const T share = b->a->mode == QN_BAG_mean ? (T)count_of(b, begin, end) : 1; \
        for (int64_t j0 = 0; j0 < m; j0 += STRIP) { \
            T sum[STRIP] = {0}; \
            const int64_t n = m - j0 < STRIP ? m - j0 : STRIP; \
            bool any = false; \
            for (int64_t i = begin; i < end; i++) { \
                const int64_t id = id_of(b, i); \
                if (id < 0) continue; \
                const T w = b->weights \
                                ? to(((const S *)(const void *)b->weights->data)[i * b->weights->layout.stride[0]]) \
                                : 1; \
                for (int64_t j = 0; j < n; j++) { \
                    const T v = to(x[id * row + (j0 + j) * col]); \
                    if (b->a->mode == QN_BAG_max) \
                        sum[j] = !any || v > sum[j] ? v : sum[j]; \
                    else \
                        sum[j] += b->weights ? v * w : v; \
                } \
                any = true; \
            } \
            for (int64_t j = 0; j < n; j++) \
                y[j0 + j] = from(any && b->a->mode == QN_BAG_mean ? sum[j] / share : sum[j]); \
        } \
    } \
    /* Columns [j0, j0 + n) of every row, in sum [n_rows, m]. */ \
    static void back_##dtype(const bags *b, const qn_view *y, const qn_view *table, int64_t j0, int64_t n, void *sum_, \
                             void *dx_) \
    { \
        T *sum = sum_; \
        S *dx = dx_; \
        const int64_t m = y->layout.dim[1]; \
        const S *g = (const void *)y->data; \
        for (int64_t r = 0; r < b->n_rows; r++) \
            for (int64_t j = j0; j < j0 + n; j++) sum[r * m + j] = 0; \
        for (int64_t bag = 0; bag < b->n_bags; bag++) { \
            const int64_t begin = offset_of(b, bag), end = offset_of(b, bag + 1); \
            const S *row = g + bag * y->layout.stride[0]; \
            if (b->a->mode == QN_BAG_max) { \
                const S *x = (const void *)table->data; \
                for (int64_t j = j0; j < j0 + n; j++) { \
                    int64_t best = -1; \
                    T most = 0; \
                    for (int64_t i = begin; i < end; i++) { \
                        const int64_t id = id_of(b, i); \
                        if (id < 0) continue; \
                        const T v = to(x[id * table->layout.stride[0] + j * table->layout.stride[1]]); \
                        if (best >= 0 && !(v > most)) continue; \
                        best = id; \
                        most = v; \
                    } \
                    if (best >= 0) sum[best * m + j] += to(row[j * y->layout.stride[1]]); \
                } \
                continue; \
            } \
            const T share = b->a->mode == QN_BAG_mean ? (T)count_of(b, begin, end) : 1; \
            for (int64_t i = begin; i < end; i++) { \
                const int64_t id = id_of(b, i); \
                if (id < 0) continue; \
                const T w = b->weights \
                                ? to(((const S *)(const void *)b->weights->data)[i * b->weights->layout.stride[0]]) \
                                : 1; \
                for (int64_t j = j0; j < j0 + n; j++) sum[id * m + j] += to(row[j * y->layout.stride[1]]) * w / share; \
            } \
        } \
        if ((void *)dx != (void *)sum) \
            for (int64_t r = 0; r < b->n_rows; r++) \
                for (int64_t j = j0; j < j0 + n; j++) dx[r * m + j] = from(sum[r * m + j]); \
    }
QN_REAL_ROWS(BAG)

typedef struct typed_fns {
    void (*bag)(const bags *b, int64_t bag, const qn_view *table, void *y);
    void (*back)(const bags *b, const qn_view *y, const qn_view *table, int64_t j0, int64_t n, void *sum, void *dx);
} typed_fns;
#define ROW(dtype, S, T, to, from) [QN_DTYPE_##dtype] = {bag_##dtype, back_##dtype},
static const typed_fns table[QN_DTYPE_COUNT] = {QN_REAL_ROWS(ROW)};

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(2048, node->layout.dim[1]);
    return node->layout.dim[1] > 0 ? node->layout.dim[0] : 0;
}

static void run(const qn_task *t)
{
    const bags b = bags_of(t, t->n_src > 3 ? &t->src[3] : NULL, t->src[0].layout.dim[0]);
    for (int64_t bag = t->begin; bag < t->end && b.a->strict; bag++) look_at(t, &b, bag);
    for (int64_t bag = t->begin; bag < t->end; bag++)
        table[t->dst.dtype].bag(&b, bag, &t->src[0], qn__row_at(&t->dst, bag));
}

const qn_cpu_op qn__cpu_op_embedding_bag = {QN_OP_embedding_bag, accepts, NULL, 1, items, run};

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    return qn__elem_bytes(node->dtype) < 4 ? (uint64_t)qn_layout_numel(&node->layout) * 4 : 0;
}

static int64_t items_back(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = 1;
    return node->layout.dim[0] > 0 ? (node->layout.dim[1] + STRIP - 1) / STRIP : 0;
}

static void run_back(const qn_task *t)
{
    const qn_bag_attrs *a = t->attrs;
    const bool max = a->mode == QN_BAG_max, beside = qn__elem_bytes(t->dst.dtype) < 4;
    const bags b = bags_of(t, t->n_src > 3 && !max ? &t->src[3] : NULL, a->n_rows);
    const int64_t m = t->dst.layout.dim[1];
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t j0 = item * STRIP, n = m - j0 < STRIP ? m - j0 : STRIP;
        table[t->dst.dtype].back(&b, &t->src[0], max ? &t->src[3] : NULL, j0, n,
                                 beside ? (void *)t->scratch : (void *)t->dst.data, t->dst.data);
    }
}

const qn_cpu_op qn__cpu_op_embedding_bag_back = {QN_OP_embedding_bag_back, accepts, scratch, 1, items_back, run_back};
