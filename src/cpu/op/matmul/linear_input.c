/* SPDX-License-Identifier: MIT */
/* src/cpu/op/matmul/linear_input.c -- x = y w, the gradient of y = x w^T to x, straight from the weight's format.
 *
 * An item is up to ROWS rows of y and COLS columns of w. SLICE rows of w at a time are unpacked for its columns,
 * which is all of the weight that is ever unpacked, and multiplied with the rows of y in place. To the bit: rows of
 * w are divided into slices of QN_MM_SLICE, a slice is one chain of fused multiply-adds from 0, and slices are added
 * in order, so neither tiles nor threads change a result. Unpacking is repeated for every ROWS rows: Q4_K, 2048 x
 * 2048, runs at 94 % of the speed of a float32 product in tiles of 512 rows, at 75 % in tiles of 128. */
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

#include <limits.h>
#include <string.h>

enum { SLICE = QN_MM_SLICE, COLS = 256, ROWS = 512, ROWS_MIN = 64, ITEMS = 16 };
_Static_assert(SLICE *COLS * 4 <= QN_MM_TILE_BYTES, "a slice of w for the columns of an item");

typedef struct cut {
    int64_t m, k, n, rows, n_rows, n_cols;
} cut;

static int64_t parts(int64_t x, int64_t size) { return (x + size - 1) / size; }

/* Enough items for threads to share, as far as there are rows. */
static cut cut_of(const qn_node *node)
{
    const qn_layout *w = &node->src[1]->layout;
    cut c = {.m = w->dim[0], .k = w->dim[1], .n = qn__row_count(&node->src[0]->layout), .rows = ROWS};
    c.n_cols = parts(c.k, COLS);
    while (c.rows > ROWS_MIN && parts(c.n, c.rows) * c.n_cols < ITEMS) c.rows /= 2;
    c.n_rows = parts(c.n, c.rows);
    return c;
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    const qn_node *y = node->src[0], *w = node->src[1];
    if (!qn__want_dtype(node, "y", y, QN_DTYPE_F32, err)) return false;
    if (!qn__want_loadable(kernels, node, "the weight", w, err) || !qn__want_dense_rows(node, "the weight", w, err))
        return false;
    if (w->layout.dim[1] % 16) {
        QN_FAIL(err, unsupported, "linear_input: the weight has %lld columns, a multiple of 16 expected",
                (long long)w->layout.dim[1]);
        return false;
    }
    int64_t stride;
    if (qn_layout_numel(&y->layout) == 0 || (qn__row_step(&y->layout) == 1 && qn__rows_uniform(&y->layout, &stride)))
        return true;
    QN_FAIL(err, unsupported, "linear_input: rows of y that lie one fixed distance apart expected");
    return false;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels, (void)phase;
    const cut c = cut_of(node);
    *chunk = 1;
    return c.n_rows * c.n_cols;
}

static void one(const qn_task *t, const cut *c, int64_t stride, int64_t i0, int64_t n_i, int64_t j0, int64_t n_j)
{
    const qn_view *w = &t->src[1];
    float *x = (float *)(void *)t->dst.data + i0 * c->k + j0;
    qn_outer o = {.y = x,
                  .y_stride = c->k,
                  .a_out = stride,
                  .a_in = 1,
                  .b = t->tile,
                  .b_stride = n_j,
                  .n_lanes = n_j,
                  .n_out = n_i};
    for (int64_t at = 0; at == 0 || at < c->m; at += SLICE) {
        o.n_in = c->m - at < SLICE ? c->m - at : SLICE;
        for (int64_t r = 0; r < o.n_in; r++)
            qn__row_load(t->kernels, w->dtype, qn__row_at(w, at + r), 1, j0, n_j, t->tile + r * n_j);
        o.a = (const float *)(const void *)t->src[0].data + i0 * stride + at;
        o.mode = at == 0 ? QN_OUTER_set : QN_OUTER_add;
        t->kernels->outer_f32(&o);
    }
}

static void run(const qn_task *t)
{
    const cut c = cut_of(t->node);
    int64_t stride = 0;
    (void)qn__rows_uniform(&t->src[0].layout, &stride);
    if (stride == 0) stride = c.m; /* a single row */
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t i0 = item % c.n_rows * c.rows, j0 = item / c.n_rows * COLS;
        one(t, &c, stride, i0, c.n - i0 < c.rows ? c.n - i0 : c.rows, j0, c.k - j0 < COLS ? c.k - j0 : COLS);
    }
}

const qn_cpu_op qn__cpu_op_linear_input = {QN_OP_linear_input, accepts, NULL, 1, items, run};
