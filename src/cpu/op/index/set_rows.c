/* SPDX-License-Identifier: MIT */
/* src/cpu/op/index/set_rows.c -- dst[rows[i],:] = x[i,:] in dst's dtype: how a step writes the KV cache. Rows that
 * are negative (padding) or out of range write nothing. Where two items name the same row the later one wins, in
 * whatever order they run: the earlier one checks the later ones and skips. That is n^2/2 comparisons, little for a
 * batch. */
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

#include <string.h>

enum { PART = QN_MM_TILE_BYTES / 4 };

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    const qn_node *dst = node->src[0], *x = node->src[1], *rows = node->src[2];
    return qn__want_storable(node, "the destination", dst, err) && qn__want_dtype(node, "x", x, QN_DTYPE_F32, err) &&
           qn__want_loadable(kernels, node, "x", x, err) &&
           qn__want_dtype(node, "the row numbers", rows, QN_DTYPE_I32, err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(4096, qn__row_size(&node->src[1]->layout));
    return qn__row_count(&node->src[1]->layout);
}

static int32_t row_number(const qn_view *rows, int64_t step, int64_t i)
{
    int32_t row;
    memcpy(&row, rows->data + i * step * 4, 4);
    return row;
}

static bool written_later(const qn_view *rows, int64_t step, int64_t i, int64_t n, int32_t row)
{
    bool found = false;
    while (++i < n && !found) found = row_number(rows, step, i) == row;
    return found;
}

static void run(const qn_task *t)
{
    const qn_view *dst = &t->src[0], *x = &t->src[1], *rows = &t->src[2];
    const int64_t m = qn__row_size(&x->layout), n = qn__row_count(&x->layout), n_rows = dst->layout.dim[0];
    const int64_t x_step = qn__row_step(&x->layout), rows_step = qn__row_step(&rows->layout);

    for (int64_t i = t->begin; i < t->end; i++) {
        const int32_t row = row_number(rows, rows_step, i);
        if (row < 0 || row >= n_rows || written_later(rows, rows_step, i, n, row)) continue;
        uint8_t *y = qn__row_at(dst, row);
        for (int64_t at = 0; at < m; at += PART) {
            const int64_t part = m - at < PART ? m - at : PART;
            qn__row_load(t->kernels, QN_DTYPE_F32, qn__row_at(x, i), x_step, at, part, t->tile);
            qn__row_store(t->kernels, dst->dtype, y + qn__elems_bytes(dst->dtype, at), t->tile, part);
        }
    }
}

const qn_cpu_op qn__cpu_op_set_rows = {QN_OP_set_rows, accepts, NULL, 1, items, run};
