/* SPDX-License-Identifier: MIT */
/* src/cpu/op/copy.c -- y = x, row-major, converted to dtype. Scalars: bytes as they are where the dtype stays, else through the numbers
 * of numbers.h, so that only one rounding or truncation takes place (F64 to F16 rounds to F32 first, as in PyTorch). Reals become
 * integers towards zero; what I32 and I64 cannot hold becomes their nearest, NaN 0; narrower integers wrap around. Blocks go through
 * float32. */
#include "cpu/op/numbers.h"
#include "cpu/op/ops.h"
#include "cpu/op/pointwise.h"
#include "cpu/row.h"

#include <string.h>

enum { PART = QN_MM_TILE_BYTES / 4 }; /* floats at once; a multiple of every block */

static bool is_block(qn_dtype dtype) { return qn_dtype_get(dtype)->class_ == QN_CLASS_block; }
static bool by_rows(const qn_node *n) { return is_block(n->dtype) || is_block(n->src[0]->dtype); }

static bool accepts(const qn_ukr *ukr, const qn_node *node, qn_error *err)
{
    const qn_node *x = node->src[0];
    if (!by_rows(node)) return true;
    if (x->dtype == node->dtype) return qn__want_loadable(ukr, node, "the source", x, err);
    return qn__want_loadable(ukr, node, "the source", x, err) && qn__want_storable(node, "the result", node, err);
}

static int64_t items(const qn_ukr *ukr, const qn_node *node, int phase, int64_t *chunk)
{
    if (!by_rows(node)) return qn__pw_items(ukr, node, phase, chunk);
    *chunk = qn__chunk_of(8192, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

static void run_rows(const qn_task *t)
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

/* ---- from one kind of number to another ------------------------------------------------------------------------------ */

typedef void (*turn_fn)(qn_dtype to, void *y, const void *x, int64_t n);
#define TURN(fn, Y, X, expr)                                                                                           \
    static void fn(qn_dtype to, void *y_, const void *x_, int64_t n)                                                   \
    {                                                                                                                  \
        Y *y = y_;                                                                                                     \
        const X *x = x_;                                                                                               \
        (void)to;                                                                                                      \
        for (int64_t i = 0; i < n; i++) y[i] = (Y)(expr);                                                              \
    }

static int64_t whole(double x, qn_dtype to)
{
    if (to == QN_DTYPE_BOOL) return x != 0;
    const double top = to == QN_DTYPE_I32 ? 0x1p31 : 0x1p63; /* the least that does not fit */
    if (x >= top) return to == QN_DTYPE_I32 ? INT32_MAX : INT64_MAX;
    if (x <= -top) return to == QN_DTYPE_I32 ? INT32_MIN : INT64_MIN;
    return x == x ? (int64_t)x : 0;
}

TURN(f32_to_f64, double, float, x[i])
TURN(f32_to_i64, int64_t, float, whole((double)x[i], to))
TURN(f64_to_f32, float, double, x[i])
TURN(f64_to_i64, int64_t, double, whole(x[i], to))
TURN(i64_to_f32, float, int64_t, x[i])
TURN(i64_to_f64, double, int64_t, x[i])
static const turn_fn turns[QN_NUM_COUNT][QN_NUM_COUNT] = {
    [QN_NUM_f32] = {NULL, f32_to_f64, f32_to_i64},
    [QN_NUM_f64] = {f64_to_f32, NULL, f64_to_i64},
    [QN_NUM_i64] = {i64_to_f32, i64_to_f64, NULL},
};

static void run(const qn_task *t)
{
    if (by_rows(t->node)) {
        run_rows(t);
        return;
    }
    const qn_dtype from = t->src[0].dtype, to = t->dst.dtype;
    const int64_t total = qn_layout_numel(&t->dst.layout), bytes = qn_dtype_get(to)->block_bytes;
    const turn_fn turn = turns[qn__number_of(from)][qn__number_of(to)];
    uint8_t *tile = (uint8_t *)t->tile, *turned = tile + 12 * QN_PW_RUN;
    qn_walk w = qn__walk_of(&t->src[0]);
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t at = item * QN_PW_RUN, n = total - at < QN_PW_RUN ? total - at : QN_PW_RUN;
        uint8_t *y = t->dst.data + at * bytes;
        if (from == to) {
            const void *x = qn__walk_raw(&w, at, n, y); /* gathered where it belongs */
            if (x != y) memcpy(y, x, (size_t)(n * bytes));
            continue;
        }
        const void *x = qn__walk_load(t->ukr, &w, at, n, tile);
        if (turn) {
            void *z = qn__number_is(to) ? y : turned;
            turn(to, z, x, n);
            x = z;
        }
        if (!qn__number_is(to)) qn__narrow_to(t->ukr, to, x, n, y);
        else if (x != y) memcpy(y, x, (size_t)(n * bytes));
    }
}

const qn_cpu_op qn__cpu_op_copy = {QN_OP_copy, accepts, NULL, 1, items, run};
