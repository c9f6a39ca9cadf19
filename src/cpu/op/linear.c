/* SPDX-License-Identifier: MIT */
/* src/cpu/op/linear.c -- y = x w^T (+ b), straight from the weight's format.
 *
 * Phase 0 puts the columns (the rows of x) into the form that the weight's kernel takes: quantized activations, or floats a fixed
 * distance apart; nothing when they are that already. Phase 1 cuts the weight into tiles of rows, and a tile meets all columns
 * before the next is read: weights come from memory once a product, however many columns there are. */
#include "cpu/op/ops.h"
#include "cpu/row.h"

#include <limits.h>
#include <string.h>

/* Weight bytes a tile: large enough to stream, small enough to stay in L2 beside the columns and to share out over threads. */
enum { TILE_BYTES = 32 * 1024, TILE_ROWS_MIN = 16, TILE_ROWS_MAX = 512 };
enum { PREPARE = 2048 }; /* elements of a column prepared at once; a multiple of 32 */

static int64_t n_columns(const qn_node *node) { return qn__row_count(&node->src[0]->layout); }

static bool as_it_is(const qn_ukr *ukr, const qn_node *node, int64_t *stride)
{
    const qn_layout *x = &node->src[0]->layout;
    return !ukr->mm[node->src[1]->dtype].act_q8 && qn__row_step(x) == 1 && qn__rows_uniform(x, stride);
}

static bool accepts(const qn_ukr *ukr, const qn_node *node, qn_error *err)
{
    const qn_node *x = node->src[0], *w = node->src[1], *b = node->n_src > 2 ? node->src[2] : NULL;
    if (!qn__want_dtype(node, "x", x, QN_DTYPE_F32, err)) return false;
    if (!ukr->mm[w->dtype].fn) {
        QN_FAIL(err, unsupported, "linear: no product with weights in %s", qn_dtype_get(w->dtype)->name);
        return false;
    }
    if (!qn__want_loadable(ukr, node, "the weight", w, err) || !qn__want_dense_rows(node, "the weight", w, err)) return false;
    if (w->layout.dim[0] > 1 && w->layout.stride[0] < 0) {
        QN_FAIL(err, unsupported, "linear: the weight's rows lie in reverse order");
        return false;
    }
    if (n_columns(node) > INT32_MAX || w->layout.dim[0] > INT32_MAX) {
        QN_FAIL(err, limit, "linear: %lld columns x %lld rows, at most %d each", (long long)n_columns(node),
                (long long)w->layout.dim[0], INT32_MAX);
        return false;
    }
    return !b || (qn__want_dtype(node, "the bias", b, QN_DTYPE_F32, err) && qn__want_dense_rows(node, "the bias", b, err));
}

static int64_t column_bytes(const qn_ukr *ukr, const qn_node *node)
{
    const int64_t k = qn__row_size(&node->src[0]->layout);
    return ukr->mm[node->src[1]->dtype].act_q8 ? k / 32 * (int64_t)sizeof(qn_act) : k * 4;
}

static uint64_t scratch(const qn_ukr *ukr, const qn_node *node)
{
    int64_t stride;
    return as_it_is(ukr, node, &stride) ? 0 : (uint64_t)n_columns(node) * (uint64_t)column_bytes(ukr, node);
}

static int64_t tile_rows(const qn_node *node)
{
    const qn_node *w = node->src[1];
    const int64_t row_bytes = qn_dtype_row_bytes(w->dtype, w->layout.dim[1]);
    int64_t rows = row_bytes > 0 ? TILE_BYTES / row_bytes / TILE_ROWS_MIN * TILE_ROWS_MIN : TILE_ROWS_MAX;
    if (rows < TILE_ROWS_MIN) rows = TILE_ROWS_MIN;
    return rows > TILE_ROWS_MAX ? TILE_ROWS_MAX : rows;
}

static int64_t parts_of_column(const qn_node *node)
{
    return (qn__row_size(&node->src[0]->layout) + PREPARE - 1) / PREPARE;
}

static int64_t items(const qn_ukr *ukr, const qn_node *node, int phase, int64_t *chunk)
{
    int64_t stride;
    if (phase == 0) {
        *chunk = qn__chunk_of(4 * PREPARE, qn__row_size(&node->src[0]->layout));
        return as_it_is(ukr, node, &stride) ? 0 : n_columns(node) * parts_of_column(node);
    }
    const int64_t m = node->src[1]->layout.dim[0], rows = tile_rows(node);
    *chunk = 1;
    return n_columns(node) > 0 ? (m + rows - 1) / rows : 0;
}

static void prepare(const qn_task *t)
{
    const int64_t k = qn__row_size(&t->src[0].layout), step = qn__row_step(&t->src[0].layout);
    const int64_t parts = parts_of_column(t->node), bytes = column_bytes(t->ukr, t->node);
    const bool quantize = t->ukr->mm[t->src[1].dtype].act_q8;

    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t c = item / parts, at = item % parts * PREPARE, n = k - at < PREPARE ? k - at : PREPARE;
        const uint8_t *x = qn__row_at(&t->src[0], c);
        uint8_t *to = t->scratch + c * bytes;
        if (!quantize) {
            qn__row_load(t->ukr, QN_DTYPE_F32, x, step, at, n, (float *)(void *)to + at);
            continue;
        }
        const float *from = (const float *)(const void *)x + at;
        if (step != 1) {
            qn__row_load(t->ukr, QN_DTYPE_F32, x, step, at, n, t->tile);
            from = t->tile;
        }
        t->ukr->quantize_act((qn_act *)(void *)to + at / 32, from, n);
    }
}

static void add_bias(const qn_task *t, int64_t row, int64_t rows, int64_t cols, int64_t m)
{
    const float *b = (const float *)(const void *)t->src[2].data + row;
    for (int64_t c = 0; c < cols; c++) {
        float *y = (float *)(void *)t->dst.data + c * m + row;
        t->ukr->add_f32(y, y, b, rows);
    }
}

static void product(const qn_task *t)
{
    const qn_view *w = &t->src[1];
    const int64_t m = w->layout.dim[0], k = w->layout.dim[1], cols = n_columns(t->node), rows = tile_rows(t->node);
    const int64_t w_row_bytes = m > 1 ? qn__elems_bytes(w->dtype, w->layout.stride[0]) : qn_dtype_row_bytes(w->dtype, k);
    int64_t stride = 0;
    const bool direct = as_it_is(t->ukr, t->node, &stride);

    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t first = item * rows, n = m - first < rows ? m - first : rows;
        float *y = (float *)(void *)t->dst.data + first; /* [cols, m] from row `first` on */
        const qn_mm_args args = {
            .w = w->data + first * w_row_bytes,
            .w_row_bytes = (size_t)w_row_bytes,
            .x = direct ? t->src[0].data : t->scratch,
            .x_row_bytes = direct ? (size_t)stride * 4 : (size_t)column_bytes(t->ukr, t->node),
            .y = y,
            .y_stride = m,
            .k = k,
            .rows = (int32_t)n,
            .cols = (int32_t)cols,
            .tile = t->tile,
        };
        if (k > 0) t->ukr->mm[w->dtype].fn(&args);
        else for (int64_t c = 0; c < cols; c++) memset(y + c * m, 0, (size_t)n * 4);
        if (t->n_src > 2) add_bias(t, first, n, cols, m);
    }
}

static void run(const qn_task *t)
{
    if (t->phase == 0) prepare(t);
    else product(t);
}

const qn_cpu_op qn__cpu_op_linear = {QN_OP_linear, accepts, scratch, 2, items, run};
