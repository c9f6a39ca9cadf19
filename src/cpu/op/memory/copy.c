/* SPDX-License-Identifier: MIT */
/* src/cpu/op/memory/copy.c -- y = x, row-major, converted to dtype. Scalars: bytes are copied where the dtype stays
 * the same, otherwise converted through the numbers of numbers.h, with a single rounding or truncation (F64 to F16
 * rounds to F32 first, as in PyTorch). Reals become integers towards zero; what I32 and I64 cannot hold saturates,
 * NaN gives 0; narrower integers wrap. Blocks go through float32. */
#include "cpu/op/pointwise/numbers.h"
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"
#include "cpu/op/pointwise/typed.h"

#include <string.h>

enum { PART = QN_MM_TILE_BYTES / 4 }; /* floats at once; a multiple of every block */

static bool is_block(qn_dtype dtype) { return qn_dtype_get(dtype)->class_ == QN_CLASS_block; }
static bool by_rows(const qn_node *n) { return is_block(n->dtype) || is_block(n->src[0]->dtype); }

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    const qn_node *x = node->src[0];
    if (!by_rows(node)) return true;
    if (x->dtype == node->dtype) return qn__want_loadable(kernels, node, "the source", x, err);
    return qn__want_loadable(kernels, node, "the source", x, err) && qn__want_storable(node, "the result", node, err);
}

/* ---- transposed sources, whose dense dimension is not the last ---- In tiles of both dimensions, each line of the
 * source is read once, not once for each element. */

enum { SIDE = 64 }; /* 16 KiB of F32: a tile of the source and one of the result fit L1 */

/* The dense dimension; -1 when the source is not transposed. */
static int transposed_dim(const qn_node *node)
{
    const qn_layout *x = &node->src[0]->layout;
    const int last = x->rank - 1;
    if (node->dtype != node->src[0]->dtype || x->rank < 2 || x->stride[last] == 1 || x->dim[last] < 8) return -1;
    for (int i = 0; i < last; i++) {
        if (x->stride[i] == 1 && x->dim[i] >= 8) return i;
    }
    return -1;
}

static int64_t tiles_of(int64_t n) { return (n + SIDE - 1) / SIDE; }

static int64_t transposed_items(const qn_node *node, int dim, int64_t *chunk)
{
    const qn_layout *l = &node->layout;
    const int64_t a = l->dim[dim], b = l->dim[l->rank - 1], n = qn_layout_numel(l);
    *chunk = 2;
    return n > 0 ? n / (a * b) * tiles_of(a) * tiles_of(b) : 0;
}

static void run_transposed(const qn_task *t, int dim)
{
    const qn_layout *xl = &t->src[0].layout, *yl = &t->dst.layout;
    const int last = xl->rank - 1;
    const int64_t bytes = qn_dtype_get(t->dst.dtype)->block_bytes, step = xl->stride[last], row = yl->stride[dim];
    const int64_t across = tiles_of(xl->dim[last]), down = tiles_of(xl->dim[dim]);
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t j0 = item % across * SIDE, i0 = item / across % down * SIDE;
        int64_t from = i0 + j0 * step, to = i0 * row + j0, rest = item / across / down;
        for (int d = last - 1; d >= 0; d--) {
            if (d == dim) continue;
            from += rest % xl->dim[d] * xl->stride[d];
            to += rest % xl->dim[d] * yl->stride[d];
            rest /= xl->dim[d];
        }
        const int64_t ni = xl->dim[dim] - i0 < SIDE ? xl->dim[dim] - i0 : SIDE,
                      nj = xl->dim[last] - j0 < SIDE ? xl->dim[last] - j0 : SIDE;
        const uint8_t *x = t->src[0].data + from * bytes;
        uint8_t *y = t->dst.data + to * bytes;
        if (bytes == 4) {
            t->kernels->transpose_f32((float *)(void *)y, row, (const float *)(const void *)x, step, nj, ni);
            continue;
        }
        for (int64_t i = 0; i < ni; i++) qn__move(bytes, y + i * row * bytes, 1, x + i * bytes, step, nj);
    }
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    if (!by_rows(node) && transposed_dim(node) >= 0) return transposed_items(node, transposed_dim(node), chunk);
    if (!by_rows(node)) return qn__pw_items(kernels, node, phase, chunk);
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
            qn__row_load(t->kernels, from, x, step, at, m, t->tile);
            qn__row_store(t->kernels, to, y + qn__elems_bytes(to, at), t->tile, m);
        }
    }
}

/* ---- from one kind of number to another ------------------------------------------------------ */

typedef void (*convert_fn)(qn_dtype to, void *y, const void *x, int64_t n);
#define CONVERT(fn, Y, X, expr) \
    static void fn(qn_dtype to, void *y_, const void *x_, int64_t n) \
    { \
        Y *y = y_; \
        const X *x = x_; \
        (void)to; \
        for (int64_t i = 0; i < n; i++) y[i] = (Y)(expr); \
    }

static int64_t whole(double x, qn_dtype to)
{
    if (to == QN_DTYPE_BOOL) return x != 0;
    const double top = to == QN_DTYPE_I32 ? 0x1p31 : 0x1p63; /* the least that does not fit */
    if (x >= top) return to == QN_DTYPE_I32 ? INT32_MAX : INT64_MAX;
    if (x <= -top) return to == QN_DTYPE_I32 ? INT32_MIN : INT64_MIN;
    return x == x ? (int64_t)x : 0;
}

CONVERT(f32_to_f64, double, float, x[i])
CONVERT(f32_to_i64, int64_t, float, whole((double)x[i], to))
/* clang-format off */
CONVERT(f64_to_f32, float, double, x[i])
CONVERT(f64_to_i64, int64_t, double, whole(x[i], to))
CONVERT(i64_to_f32, float, int64_t, x[i])
CONVERT(i64_to_f64, double, int64_t, x[i])
/* clang-format on */
static const convert_fn converts[QN_NUM_COUNT][QN_NUM_COUNT] = {
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
    const int dim = transposed_dim(t->node);
    if (dim >= 0) {
        run_transposed(t, dim);
        return;
    }
    const qn_dtype from = t->src[0].dtype, to = t->dst.dtype;
    const int64_t total = qn_layout_numel(&t->dst.layout), bytes = qn_dtype_get(to)->block_bytes;
    const convert_fn convert = converts[qn__number_of(from)][qn__number_of(to)];
    uint8_t *tile = (uint8_t *)t->tile, *converted = tile + 12 * QN_PW_RUN;
    qn_walk w = qn__walk_of(&t->src[0]);
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t at = item * QN_PW_RUN, n = total - at < QN_PW_RUN ? total - at : QN_PW_RUN;
        uint8_t *y = t->dst.data + at * bytes;
        if (from == to) {
            const void *x = qn__walk_raw(&w, at, n, y); /* gathered into the result */
            if (x != y) memcpy(y, x, (size_t)(n * bytes));
            continue;
        }
        const void *x = qn__walk_load(t->kernels, &w, at, n, tile);
        if (convert) {
            void *z = qn__number_is(to) ? y : converted;
            convert(to, z, x, n);
            x = z;
        }
        if (!qn__number_is(to))
            qn__narrow_to(t->kernels, to, x, n, y);
        else if (x != y)
            memcpy(y, x, (size_t)(n * bytes));
    }
}

const qn_cpu_op qn__cpu_op_copy = {QN_OP_copy, accepts, NULL, 1, items, run};
