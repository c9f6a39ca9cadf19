/* SPDX-License-Identifier: MIT */
/* src/cpu/op/memory/strided.c -- writes into parts: strided_update and assign; and empty, which computes nothing. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"
#include "cpu/op/row.h"

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return node->n_src == 0 || qn__want_plain(node, "x", node->src[1], err);
}

static int64_t rows_of(const qn_layout *l, int64_t *chunk)
{
    *chunk = qn__chunk_of(16384, qn__row_size(l));
    return qn_layout_numel(l) > 0 ? qn__row_count(l) : 0;
}

/* ---- strided_update -------------------------------------------------------------------------- */

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    const qn_strided_attrs *attrs = node->attrs;
    (void)kernels;
    if (phase == 1) return rows_of(&node->src[1]->layout, chunk);
    *chunk = 1; /* a part as large as the whole covers it: nothing of the old value is left */
    if (attrs->mode == QN_COMBINE_set && qn_layout_numel(&attrs->layout) == qn_layout_numel(&node->layout)) return 0;
    const qn_node *dst = node->src[0];
    return dst->op == QN_OP_empty ? 0 : qn__copied_rows(node, chunk);
}

static void run(const qn_task *t)
{
    const qn_strided_attrs *attrs = t->attrs;
    if (t->phase == 0) {
        qn__copy_rows(t);
        return;
    }
    const qn_view *x = &t->src[1];
    const int64_t n = qn__row_size(&x->layout), x_step = qn__row_step(&x->layout),
                  y_step = qn__row_step(&attrs->layout);
    qn_view y = t->dst;
    y.layout = attrs->layout;
    const qn_typed *type = qn__typed(y.dtype);
    for (int64_t r = t->begin; r < t->end; r++) {
        if (attrs->mode == QN_COMBINE_set)
            qn__move(qn__elem_bytes(y.dtype), qn__row_at(&y, r), y_step, qn__row_at(x, r), x_step, n);
        else
            type->combine[attrs->mode](qn__row_at(&y, r), y_step, qn__row_at(x, r), x_step, n);
    }
}

const qn_cpu_op qn__cpu_op_strided_update = {QN_OP_strided_update, accepts, NULL, 2, items, run};

/* ---- assign ---------------------------------------------------------------------------------- */

static int64_t assign_items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    return rows_of(&node->src[1]->layout, chunk);
}

static void run_assign(const qn_task *t)
{
    const qn_view *y = &t->src[0], *x = &t->src[1];
    const int64_t n = qn__row_size(&x->layout), x_step = qn__row_step(&x->layout), y_step = qn__row_step(&y->layout);
    const bool blocks = qn_dtype_get(y->dtype)->block_elems > 1;
    for (int64_t r = t->begin; r < t->end; r++) {
        if (blocks)
            qn__row_move(y->dtype, qn__row_at(y, r), qn__row_at(x, r), 1, n);
        else
            qn__move(qn__elem_bytes(y->dtype), qn__row_at(y, r), y_step, qn__row_at(x, r), x_step, n);
    }
}

static bool assign_accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels, (void)node, (void)err; /* bytes are moved, whatever they are */
    return true;
}

const qn_cpu_op qn__cpu_op_assign = {QN_OP_assign, assign_accepts, NULL, 1, assign_items, run_assign};

/* ---- empty ----------------------------------------------------------------------------------- */

static int64_t no_items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)node;
    (void)phase;
    *chunk = 1;
    return 0;
}

static void run_nothing(const qn_task *t) { (void)t; }

const qn_cpu_op qn__cpu_op_empty = {QN_OP_empty, accepts, NULL, 1, no_items, run_nothing};
