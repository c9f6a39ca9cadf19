/* SPDX-License-Identifier: MIT */
/* src/cpu/op/index/gather.c -- gather and index_select: copies elements by an index along one dimension. An index
 * out of range gives zero, and strict nodes report it. An item is a row of the result. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

enum { RUN = 512 }; /* indices looked up at once */

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_plain(node, "x", node->src[0], err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(4096, qn__row_size(&node->layout));
    return qn_layout_numel(&node->layout) > 0 ? qn__row_count(&node->layout) : 0;
}

/* ---- gather ---------------------------------------------------------------------------------- */

static void run_gather(const qn_task *t)
{
    const qn_index_attrs *attrs = t->attrs;
    const qn_view *x = &t->src[0], *ids = &t->src[1];
    const int rank = t->dst.layout.rank, dim = attrs->dim;
    const int64_t n = qn__row_size(&t->dst.layout), bytes = qn__elem_bytes(x->dtype),
                  id_step = qn__row_step(&ids->layout);
    const int64_t size = rank ? x->layout.dim[dim] : 1, stride = rank ? x->layout.stride[dim] : 0;
    const int64_t step = rank && dim != rank - 1 ? qn__row_step(&x->layout) : 0;
    int64_t at[RUN];

    for (int64_t r = t->begin; r < t->end; r++) {
        int64_t place[QN_MAX_RANK] = {0}, base = 0;
        qn__row_coords(&t->dst.layout, r, place);
        for (int i = 0; i + 1 < rank; i++)
            if (i != dim) base += place[i] * x->layout.stride[i];
        const int64_t id_row = qn__row_start(&ids->layout, r);
        uint8_t *y = qn__row_at(&t->dst, r);
        for (int64_t j = 0; j < n; j += RUN) {
            const int64_t m = n - j < RUN ? n - j : RUN;
            if (qn__places(at, ids, id_row + j * id_step, id_step, m, size, 1) && attrs->strict)
                qn__report_indices(t, attrs->strict, dim, ids, id_row + j * id_step, id_step, m, size);
            /* Offsets may be negative in a flipped view: they are counted from the lowest element. */
            if (step == 0 && stride > 0) {
                for (int64_t i = 0; i < m; i++) at[i] = at[i] < 0 ? -1 : at[i] * stride;
                qn__pick(bytes, y + j * bytes, qn__elem_at(x, base), at, m);
                continue;
            }
            for (int64_t i = 0; i < m; i++) {
                uint8_t *to = y + (j + i) * bytes;
                if (at[i] < 0)
                    memset(to, 0, (size_t)bytes);
                else
                    memcpy(to, qn__elem_at(x, base + at[i] * stride + (j + i) * step), (size_t)bytes);
            }
        }
    }
}

const qn_cpu_op qn__cpu_op_gather = {QN_OP_gather, accepts, NULL, 1, items, run_gather};

/* ---- index_select ---------------------------------------------------------------------------- */

static void run_select(const qn_task *t)
{
    const qn_index_attrs *attrs = t->attrs;
    const qn_view *x = &t->src[0], *ids = &t->src[1];
    const int rank = t->dst.layout.rank, dim = attrs->dim;
    const int64_t n = qn__row_size(&t->dst.layout), bytes = qn__elem_bytes(x->dtype),
                  id_step = qn__row_step(&ids->layout);
    const int64_t size = x->layout.dim[dim], stride = x->layout.stride[dim];

    for (int64_t r = t->begin; r < t->end; r++) {
        int64_t place[QN_MAX_RANK] = {0}, base = 0;
        qn__row_coords(&t->dst.layout, r, place);
        for (int i = 0; i + 1 < rank; i++)
            if (i != dim) base += place[i] * x->layout.stride[i];
        uint8_t *y = qn__row_at(&t->dst, r);
        if (dim != rank - 1) {
            const int64_t id = qn__index_at(ids, place[dim] * id_step);
            if (id >= 0 && id < size) {
                qn__move(bytes, y, 1, qn__elem_at(x, base + id * stride), qn__row_step(&x->layout), n);
                continue;
            }
            memset(y, 0, (size_t)(n * bytes));
            if (attrs->strict) qn__bad_index(t, attrs->strict, dim, id, size);
            continue;
        }
        for (int64_t j = 0; j < n; j++) {
            const int64_t id = qn__index_at(ids, j * id_step);
            if (id >= 0 && id < size) {
                memcpy(y + j * bytes, qn__elem_at(x, base + id * stride), (size_t)bytes);
                continue;
            }
            memset(y + j * bytes, 0, (size_t)bytes);
            if (attrs->strict) qn__bad_index(t, attrs->strict, dim, id, size);
        }
    }
}

const qn_cpu_op qn__cpu_op_index_select = {QN_OP_index_select, accepts, NULL, 1, items, run_select};
