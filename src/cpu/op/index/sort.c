/* SPDX-License-Identifier: MIT */
/* src/cpu/op/index/sort.c -- argsort and topk: indices of a line's elements in order of their keys, equal ones in
 * order of index.
 *
 * Elements become unsigned keys (typed.h; NaN above all), inverted for descending order, next to their indices. A
 * bottom-up merge sort moves the pairs, which is stable. topk keeps the best k in a heap that also orders by index.
 * Short lines fit the thread's tile, long ones use the node's scratch. An item is a line. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

typedef struct pair {
    uint64_t key;
    int64_t place;
} pair;

enum { SHORT = QN_MM_TILE_BYTES / (2 * (int)sizeof(pair)), HEAP = SHORT, RUN = 12 };

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_plain(node, "x", node->src[0], err);
}

static int dim_of(const qn_node *node) { return ((const qn_sort_attrs *)node->attrs)->dim; }
static int64_t length(const qn_layout *l, int dim) { return l->rank ? l->dim[dim] : 1; }

static int64_t lines_of(const qn_layout *l, int dim)
{
    int64_t n = 1;
    for (int i = 0; i < l->rank; i++)
        if (i != dim) n *= l->dim[i];
    return n;
}

static bool by_heap(const qn_node *node)
{
    const int64_t k = ((const qn_sort_attrs *)node->attrs)->k;
    return node->op == QN_OP_topk && k <= HEAP && k <= length(&node->src[0]->layout, dim_of(node)) / 4;
}

/* The scratch has room for all lines, since lines are items and run at the same time. */
static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    const qn_layout *x = &node->src[0]->layout;
    const int64_t n = length(x, dim_of(node));
    (void)kernels;
    return n <= SHORT || by_heap(node) ? 0 : (uint64_t)qn_layout_numel(x) * 2 * sizeof(pair);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    const qn_layout *x = &node->src[0]->layout;
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(256, length(x, dim_of(node)));
    return qn_layout_numel(&node->layout) > 0 ? lines_of(x, dim_of(node)) : 0;
}

static void load(const qn_task *t, const uint8_t *x, int64_t stride, int64_t first, int64_t n, bool down, pair *p)
{
    enum { PART = 256 };
    uint64_t key[PART];
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t m = n - i < PART ? n - i : PART;
        qn__typed(t->src[0].dtype)->keys(key, x + (first + i) * stride * qn__elem_bytes(t->src[0].dtype), stride, m);
        for (int64_t j = 0; j < m; j++) p[i + j] = (pair){down ? ~key[j] : key[j], first + i + j};
    }
}

/* ---- sorting --------------------------------------------------------------------------------- */

static void insertion(pair *p, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const pair x = p[i];
        int64_t j = i;
        for (; j > 0 && p[j - 1].key > x.key; j--) p[j] = p[j - 1];
        p[j] = x;
    }
}

/* Sorted pairs, in p or in spare. */
static pair *merge_sort(pair *p, pair *spare, int64_t n)
{
    for (int64_t i = 0; i < n; i += RUN) insertion(p + i, n - i < RUN ? n - i : RUN);
    for (int64_t width = RUN; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            int64_t a = i, b = n - i < width ? n : i + width;
            const int64_t a_end = b, b_end = n - i < 2 * width ? n : i + 2 * width;
            if (b == b_end || p[b - 1].key <= p[b].key) {
                memcpy(spare + i, p + i, (size_t)(b_end - i) * sizeof *p);
                continue;
            }
            for (int64_t o = i; o < b_end; o++) {
                const bool left = b == b_end || (a < a_end && p[a].key <= p[b].key);
                spare[o] = left ? p[a++] : p[b++];
            }
        }
        pair *other = p;
        p = spare;
        spare = other;
    }
    return p;
}

/* ---- the best k ------------------------------------------------------------------------------ */

static bool worse(const pair *a, const pair *b) { return a->key != b->key ? a->key > b->key : a->place > b->place; }

/* The worst on top. */
static void sink(pair *heap, int64_t n, int64_t i)
{
    const pair x = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && worse(&heap[child + 1], &heap[child])) child++;
        if (!worse(&heap[child], &x)) break;
        heap[i] = heap[child];
    }
    heap[i] = x;
}

static void best_k(const qn_task *t, const uint8_t *x, int64_t stride, int64_t n, int64_t k, bool down, pair *heap)
{
    enum { PART = 256 };
    pair part[PART];
    load(t, x, stride, 0, k, down, heap);
    for (int64_t i = k / 2 - 1; i >= 0; i--) sink(heap, k, i);
    for (int64_t i = k; i < n; i += PART) {
        const int64_t m = n - i < PART ? n - i : PART;
        load(t, x, stride, i, m, down, part);
        for (int64_t j = 0; j < m; j++) {
            if (part[j].key >= heap[0].key) continue; /* an equal one has a higher index */
            heap[0] = part[j];
            sink(heap, k, 0);
        }
    }
    for (int64_t end = k - 1; end > 0; end--) { /* the worst to the end */
        const pair x0 = heap[0];
        heap[0] = heap[end];
        heap[end] = x0;
        sink(heap, end, 0);
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int64_t start_of(const qn_layout *l, int dim, const qn_layout *shape, int64_t line)
{
    int64_t at = 0;
    for (int i = shape->rank - 1; i >= 0; i--) {
        if (i == dim) continue;
        at += line % shape->dim[i] * l->stride[i];
        line /= shape->dim[i];
    }
    return at;
}

static void run(const qn_task *t)
{
    const qn_sort_attrs *a = t->attrs;
    const qn_layout *x = &t->src[0].layout, *y = &t->dst.layout;
    const bool heap = by_heap(t->node), scalar = x->rank == 0;
    const int64_t n = length(x, a->dim), k = t->node->op == QN_OP_topk ? a->k : n;
    const int64_t x_stride = scalar ? 1 : x->stride[a->dim], y_stride = scalar ? 1 : y->stride[a->dim];
    for (int64_t line = t->begin; line < t->end; line++) {
        const uint8_t *from = qn__elem_at(&t->src[0], start_of(x, a->dim, x, line));
        int64_t *to = (int64_t *)(void *)t->dst.data + start_of(y, a->dim, x, line);
        pair *p = (pair *)(void *)(n <= SHORT || heap ? (uint8_t *)t->tile
                                                      : t->scratch + line * n * 2 * (int64_t)sizeof(pair));
        if (heap) {
            if (k > 0) best_k(t, from, x_stride, n, k, a->descending, p);
        } else {
            load(t, from, x_stride, 0, n, a->descending, p);
            p = merge_sort(p, p + n, n);
        }
        for (int64_t i = 0; i < k; i++) to[i * y_stride] = p[i].place;
    }
}

const qn_cpu_op qn__cpu_op_argsort = {QN_OP_argsort, accepts, scratch, 1, items, run};
const qn_cpu_op qn__cpu_op_topk = {QN_OP_topk, accepts, scratch, 1, items, run};
