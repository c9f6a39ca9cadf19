/* SPDX-License-Identifier: MIT */
/* src/cpu/op/index/flat_index.c -- flat_index and pad_index: indices made of indices, and of nothing. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    (void)node;
    (void)err;
    return true;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(2048, qn__row_size(&node->layout));
    return qn_layout_numel(&node->layout) > 0 ? qn__row_count(&node->layout) : 0;
}

/* A source as if it had the result's shape. */
static qn_layout stretched(const qn_layout *src, const qn_layout *dst)
{
    qn_layout l = *dst;
    for (int i = 0; i < l.rank; i++) {
        const int from = i - (l.rank - src->rank);
        l.stride[i] = from < 0 || src->dim[from] == 1 ? 0 : src->stride[from];
    }
    return l;
}

static void run_flat(const qn_task *t)
{
    const qn_flat_attrs *attrs = t->attrs;
    const int64_t n = qn__row_size(&t->dst.layout);
    qn_layout in[QN_MAX_SRC];
    for (int s = 0; s < t->n_src; s++) in[s] = stretched(&t->src[s].layout, &t->dst.layout);
    for (int64_t r = t->begin; r < t->end; r++) {
        int64_t *y = (int64_t *)(void *)qn__row_at(&t->dst, r), start[QN_MAX_SRC];
        for (int s = 0; s < t->n_src; s++) start[s] = qn__row_start(&in[s], r);
        for (int64_t j = 0; j < n; j++) {
            int64_t flat = 0;
            bool out = false;
            for (int s = 0; s < t->n_src; s++) {
                const int64_t step = in[s].rank ? in[s].stride[in[s].rank - 1] : 0, size = attrs->size[s];
                int64_t id = qn__index_at(&t->src[s], start[s] + j * step);
                if (id < 0 && id >= -size && !attrs->from_start) id += size;
                if (id < 0 || id >= size) {
                    out = true;
                    if (attrs->strict) qn__bad_index(t, attrs->strict, s, id, size);
                }
                flat = out ? 0 : flat * size + id;
            }
            y[j] = out ? -1 : flat;
        }
    }
}

const qn_cpu_op qn__cpu_op_flat_index = {QN_OP_flat_index, accepts, NULL, 1, items, run_flat};

static void run_pad(const qn_task *t)
{
    const qn_pad_index_attrs *a = t->attrs;
    const int64_t n = qn_layout_numel(&t->dst.layout);
    int64_t *y = (int64_t *)(void *)t->dst.data;
    (void)t->begin; /* one row: one item */
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i - a->before;
        if (a->mode == QN_PAD_replicate)
            at = at < 0 ? 0 : at >= a->n ? a->n - 1 : at;
        else if (a->mode == QN_PAD_circular)
            at = at < 0 ? at + a->n : at >= a->n ? at - a->n : at;
        else
            at = at < 0 ? -at : at >= a->n ? 2 * (a->n - 1) - at : at;
        y[i] = at;
    }
}

const qn_cpu_op qn__cpu_op_pad_index = {QN_OP_pad_index, accepts, NULL, 1, items, run_pad};
