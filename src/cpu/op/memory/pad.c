/* SPDX-License-Identifier: MIT */
/* src/cpu/op/memory/pad.c -- pad and tri: x with a constant around it, and x with a triangle of zeros. An item is a row
 * of the result. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_plain(node, "x", node->src[0], err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(8192, qn__row_size(&node->layout));
    return qn_layout_numel(&node->layout) > 0 ? qn__row_count(&node->layout) : 0;
}

/* n elements of one value: doubling copies. */
static void fill(uint8_t *y, int64_t bytes, const uint8_t *value, int64_t n)
{
    if (n <= 0) return;
    memcpy(y, value, (size_t)bytes);
    for (int64_t done = 1; done < n; done *= 2)
        memcpy(y + done * bytes, y, (size_t)((n - done < done ? n - done : done) * bytes));
}

static void run_pad(const qn_task *t)
{
    const qn_pad_attrs *a = t->attrs;
    const qn_view *x = &t->src[0];
    const int rank = t->dst.layout.rank;
    const int64_t n = qn__row_size(&t->dst.layout), bytes = qn__elem_bytes(t->dst.dtype),
                  step = qn__row_step(&x->layout);
    const int64_t before = rank ? a->before[rank - 1] : 0, size = qn__row_size(&x->layout);
    const int64_t first = before > 0 ? before : 0, skipped = before < 0 ? -before : 0; /* of y, of x */
    int64_t count = size - skipped;                                                    /* elements of x that are seen */
    if (count > n - first) count = n - first;
    if (count < 0) count = 0;
    uint8_t value[8] = {0};
    qn__typed(t->dst.dtype)->put(value, a->value);

    for (int64_t r = t->begin; r < t->end; r++) {
        int64_t place[QN_MAX_RANK] = {0}, at = 0;
        uint8_t *y = qn__row_at(&t->dst, r);
        bool inside = true;
        qn__row_coords(&t->dst.layout, r, place);
        for (int i = 0; i + 1 < rank; i++) {
            const int64_t from = place[i] - a->before[i];
            inside = inside && from >= 0 && from < x->layout.dim[i];
            at += from * x->layout.stride[i];
        }
        if (!inside || count == 0) {
            fill(y, bytes, value, n);
            continue;
        }
        fill(y, bytes, value, first);
        qn__move(bytes, y + first * bytes, 1, qn__elem_at(x, at + skipped * step), step, count);
        fill(y + (first + count) * bytes, bytes, value, n - first - count);
    }
}

const qn_cpu_op qn__cpu_op_pad = {QN_OP_pad, accepts, NULL, 1, items, run_pad};

static void run_tri(const qn_task *t)
{
    const qn_tri_attrs *a = t->attrs;
    const qn_layout *l = &t->dst.layout;
    const int64_t n = l->dim[l->rank - 1], rows = l->dim[l->rank - 2], bytes = qn__elem_bytes(t->dst.dtype);
    const int64_t step = qn__row_step(&t->src[0].layout);
    for (int64_t r = t->begin; r < t->end; r++) {
        const int64_t i = r % rows;
        /* Columns [low, high) stay. */
        int64_t edge = a->diagonal > n ? n : a->diagonal < -rows ? -rows : a->diagonal;
        edge += i + (a->upper ? 0 : 1);
        edge = edge < 0 ? 0 : edge > n ? n : edge;
        const int64_t low = a->upper ? edge : 0, high = a->upper ? n : edge;
        uint8_t *y = qn__row_at(&t->dst, r);
        const uint8_t *x = qn__row_at(&t->src[0], r);
        if (x != y) qn__move(bytes, y + low * bytes, 1, x + low * step * bytes, step, high - low);
        memset(y, 0, (size_t)(low * bytes));
        memset(y + high * bytes, 0, (size_t)((n - high) * bytes));
    }
}

const qn_cpu_op qn__cpu_op_tri = {QN_OP_tri, accepts, NULL, 1, items, run_tri};
