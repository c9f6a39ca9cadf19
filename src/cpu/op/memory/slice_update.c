/* SPDX-License-Identifier: MIT */
/* src/cpu/op/memory/slice_update.c -- dst[.., start : start+len, ..] = x, or += x, along one dimension of a resident
 * tensor. */
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

enum { PART = QN_MM_TILE_BYTES / 4 / 2 }; /* floats at once: x, and what is there when accumulating */

/* Bytes are copied, whatever the dtype. */
static bool as_they_are(const qn_node *node)
{
    const qn_slice_attrs *attrs = node->attrs;
    return node->src[1]->dtype == node->src[0]->dtype && !attrs->accumulate;
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    const qn_slice_attrs *attrs = node->attrs;
    const qn_node *dst = node->src[0], *x = node->src[1];
    const int64_t block = qn_dtype_get(dst->dtype)->block_elems;
    if (!qn__want_dense_rows(node, "the destination", dst, err)) return false;
    if (as_they_are(node)
            ? block > 1 && !qn__want_loadable(kernels, node, "x", x, err)
            : !qn__want_storable(node, "the destination", dst, err) || !qn__want_loadable(kernels, node, "x", x, err))
        return false;
    if (attrs->dim != dst->layout.rank - 1 || block == 1) return true;
    if (attrs->start % block == 0 && qn__row_size(&x->layout) % block == 0) return true;
    QN_FAIL(err, unsupported, "slice_update: elements %lld to %lld of a row are not whole %s blocks",
            (long long)attrs->start, (long long)(attrs->start + qn__row_size(&x->layout)),
            qn_dtype_get(dst->dtype)->name);
    return false;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(8192, qn__row_size(&node->src[1]->layout));
    return qn__row_count(&node->src[1]->layout);
}

static void run(const qn_task *t)
{
    const qn_slice_attrs *attrs = t->attrs;
    const qn_view *x = &t->src[1];
    const int64_t n = qn__row_size(&x->layout), x_step = qn__row_step(&x->layout);
    qn_view dst = t->src[0]; /* narrowed to the slice */
    dst.layout.offset += attrs->start * dst.layout.stride[attrs->dim];
    dst.layout.dim[attrs->dim] = x->layout.dim[attrs->dim];

    const bool as_is = as_they_are(t->node);
    for (int64_t r = t->begin; r < t->end; r++) {
        if (as_is) {
            qn__row_move(x->dtype, qn__row_at(&dst, r), qn__row_at(x, r), x_step, n);
            continue;
        }
        for (int64_t at = 0; at < n; at += PART) {
            const int64_t m = n - at < PART ? n - at : PART;
            float *value = t->tile, *old = t->tile + PART;
            uint8_t *y = qn__row_at(&dst, r) + qn__elems_bytes(dst.dtype, at);
            qn__row_load(t->kernels, x->dtype, qn__row_at(x, r), x_step, at, m, value);
            if (attrs->accumulate) {
                qn__row_load(t->kernels, dst.dtype, y, 1, 0, m, old);
                t->kernels->add_f32(value, old, value, m);
            }
            qn__row_store(t->kernels, dst.dtype, y, value, m);
        }
    }
}

const qn_cpu_op qn__cpu_op_slice_update = {QN_OP_slice_update, accepts, NULL, 1, items, run};
