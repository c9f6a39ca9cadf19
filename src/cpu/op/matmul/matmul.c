/* SPDX-License-Identifier: MIT */
/* src/cpu/op/matmul/matmul.c -- y = alpha a b (+ beta c) over any strides, batches broadcast. An item is a tile of one
 * product of the batch. */
#include "cpu/op/matmul/gemm.h"

#include "cpu/op/ops.h"

typedef struct sizes {
    int64_t m, n, k, batch;
} sizes;

static sizes sizes_of(const qn_node *node)
{
    const qn_layout *y = &node->layout, *a = &node->src[0]->layout;
    sizes s = {.m = y->dim[y->rank - 2], .n = y->dim[y->rank - 1], .k = a->dim[a->rank - 1], .batch = 1};
    for (int i = 0; i < y->rank - 2; i++) s.batch *= y->dim[i];
    return s;
}

static qn_gemm_cut cut_of(const qn_node *node, const sizes *s)
{
    return qn__gemm_cut(s->m, s->n, s->k, s->batch, node->dtype != QN_DTYPE_F32 && node->dtype != QN_DTYPE_F64);
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_plain(node, "a", node->src[0], err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    const sizes s = sizes_of(node);
    const qn_gemm_cut cut = cut_of(node, &s);
    *chunk = qn__gemm_chunk(&cut, s.k);
    return s.batch * qn__gemm_tiles(&cut);
}

/* The offset of matrix number `batch` of the result in a source whose leading dimensions broadcast to it. */
static int64_t start_of(const qn_layout *l, const qn_layout *y, int64_t batch, int own)
{
    int64_t at = 0;
    for (int i = y->rank - 3; i >= 0; i--) {
        const int64_t place = batch % y->dim[i];
        const int from = i - (y->rank - l->rank);
        batch /= y->dim[i];
        if (from >= 0 && from < l->rank - own && l->dim[from] > 1) at += place * l->stride[from];
    }
    return at;
}

/* A dimension counted from the end: its stride, or 0 where it is broadcast. */
static int64_t stride_of(const qn_layout *l, int back)
{
    const int i = l->rank - back;
    return i >= 0 && l->dim[i] > 1 ? l->stride[i] : 0;
}

/* A stride that is never used may be 1, which kernels prefer. */
static int64_t side_stride(const qn_layout *l, int back)
{
    const int i = l->rank - back;
    return l->dim[i] > 1 ? l->stride[i] : 1;
}

static void run(const qn_task *t)
{
    const sizes s = sizes_of(t->node);
    const qn_gemm_cut cut = cut_of(t->node, &s);
    const qn_matmul_attrs *attrs = t->attrs;
    const qn_view *a = &t->src[0], *b = &t->src[1];
    const int64_t tiles = qn__gemm_tiles(&cut), bytes = qn__elem_bytes(t->dst.dtype);
    const bool adds = t->n_src > 2 && attrs->beta != 0;
    qn_gemm g = {
        .a = {.dtype = a->dtype, .k_stride = side_stride(&a->layout, 1), .j_stride = side_stride(&a->layout, 2)},
        .b = {.dtype = b->dtype, .k_stride = side_stride(&b->layout, 2), .j_stride = side_stride(&b->layout, 1)},
        .k = s.k,
        .dtype = t->dst.dtype,
        .y_stride = s.n,
        .alpha = attrs->alpha,
        .beta = attrs->beta,
        .c_row = adds ? stride_of(&t->src[2].layout, 2) : 0,
        .c_col = adds ? stride_of(&t->src[2].layout, 1) : 0,
    };
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t batch = item / tiles;
        g.y = t->dst.data + batch * s.m * s.n * bytes;
        g.a.data = qn__elem_at(a, start_of(&a->layout, &t->dst.layout, batch, 2));
        g.b.data = qn__elem_at(b, start_of(&b->layout, &t->dst.layout, batch, 2));
        g.c = adds ? qn__elem_at(&t->src[2], start_of(&t->src[2].layout, &t->dst.layout, batch, 2)) : NULL;
        qn__gemm_run(t, &g, &cut, s.m, s.n, item % tiles);
    }
}

const qn_cpu_op qn__cpu_op_matmul = {QN_OP_matmul, accepts, NULL, 1, items, run};
