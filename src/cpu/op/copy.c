/* SPDX-License-Identifier: MIT */
/* src/cpu/op/copy.c -- y = x, row-major, converted to dtype: through float32 unless the dtype stays, when bytes move as they are. */
#include "cpu/op/ops.h"
#include "cpu/row.h"

enum { PART = QN_MM_TILE_BYTES / 4 }; /* floats at once; a multiple of every block */

static bool accepts(const qn_ukr *ukr, const qn_node *node, qn_error *err)
{
    const qn_node *x = node->src[0];
    if (x->dtype == node->dtype)
        return qn_dtype_get(x->dtype)->block_elems == 1 || qn__want_loadable(ukr, node, "the source", x, err);
    return qn__want_loadable(ukr, node, "the source", x, err) && qn__want_storable(node, "the result", node, err);
}

static int64_t items(const qn_ukr *ukr, const qn_node *node, int phase, int64_t *chunk)
{
    (void)ukr;
    (void)phase;
    *chunk = qn__chunk_of(8192, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

static void run(const qn_task *t)
{
    const qn_dtype from = t->src[0].dtype, to = t->dst.dtype;
    const int64_t n = qn__row_size(&t->dst.layout), step = qn__row_step(&t->src[0].layout);

    for (int64_t r = t->begin; r < t->end; r++) {
        const uint8_t *x = qn__row_at(&t->src[0], r);
        uint8_t *y = qn__row_at(&t->dst, r);
        if (from == to) {
            qn__row_move(from, y, x, step, n);
            continue;
        }
        for (int64_t at = 0; at < n; at += PART) {
            const int64_t m = n - at < PART ? n - at : PART;
            qn__row_load(t->ukr, from, x, step, at, m, t->tile);
            qn__row_store(t->ukr, to, y + qn__elems_bytes(to, at), t->tile, m);
        }
    }
}

const qn_cpu_op qn__cpu_op_copy = {QN_OP_copy, accepts, NULL, 1, items, run};
