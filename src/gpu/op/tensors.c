/* SPDX-License-Identifier: MIT */
/* src/gpu/op/tensors.c -- products of two values, elements written by index, numbers that count up. */
#include "gpu/gpu.h"

#include <math.h>

static bool real(qn_dtype dtype) { return dtype == QN_DTYPE_F32 || dtype == QN_DTYPE_F16 || dtype == QN_DTYPE_BF16; }
static bool plain(qn_dtype dtype) { return qn_dtype_get(dtype)->block_elems == 1 && dtype != QN_DTYPE_F64; }

static bool want(const qn_node *n, bool good, qn_error *err)
{
    if (!good)
        QN_FAIL(err, unsupported, "%s: no kernel of %s with these attributes", qn_node_op_name(n),
                qn_dtype_get(n->dtype)->name);
    return good;
}

/* ---- products ---- */

static bool matmul_accepts(const qn_node *n, qn_error *err)
{
    const qn_matmul_attrs *a = n->attrs;
    return want(n, real(n->dtype) || (plain(n->dtype) && n->dtype != QN_DTYPE_BOOL && n->n_src == 2 && a->alpha == 1),
                err);
}

/* Of the shape of y; `back`: which of the last two dimensions is not l's own, counted from the end. */
static qn_layout stretched(const qn_layout *y, const qn_layout *l, int back)
{
    qn_layout to = *y;
    for (int i = 0; i < y->rank; i++) {
        const int from = i - (y->rank - l->rank);
        to.stride[i] = from < 0 || i == y->rank - back || l->dim[from] == 1 ? 0 : l->stride[from];
    }
    return to;
}

static void matmul_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_matmul_attrs *attrs = n->attrs;
    const qn_node *x = n->src[0], *z = n->src[1], *c = n->src[n->n_src - 1];
    const qn_layout *y = &n->layout, *xl = &x->layout, *zl = &z->layout;
    const qn_layout rows = stretched(y, xl, 1), columns = stretched(y, zl, 2), added = stretched(y, &c->layout, 0);
    qn_matmul_sizes s = {.k = xl->dim[xl->rank - 1],
                         .a_step = xl->stride[xl->rank - 1],
                         .b_step = zl->stride[zl->rank - 2],
                         .has_c = n->n_src > 2 && attrs->beta != 0,
                         .at = {.p = (float)attrs->alpha, .q = (float)attrs->beta}};
    const qn_layout *const layouts[] = {&rows, &columns, &added};
    qn__gpu_walk(&s.at, y, layouts, n->n_src > 2 ? 3 : 2);
    (void)qn__gpu_format(x->dtype, &s.at.format[0]);
    (void)qn__gpu_format(z->dtype, &s.at.format[1]);
    (void)qn__gpu_format(c->dtype, &s.at.format[2]);
    (void)qn__gpu_format(n->dtype, &s.at.to);
    const int64_t groups = qn__gpu_groups(QN_GPU_matmul_real, s.at.n);
    if (real(n->dtype))
        QN_GPU_LAUNCH(b, QN_GPU_matmul_real, groups, s, QN_GPU_OF(n), QN_GPU_OF(x), QN_GPU_OF(z), QN_GPU_OF(c));
    else
        QN_GPU_LAUNCH(b, QN_GPU_matmul_whole, groups, s, QN_GPU_OF(n), QN_GPU_OF(x), QN_GPU_OF(z));
}

const qn_gpu_op qn__gpu_op_matmul = {matmul_accepts, NULL, matmul_launch};

/* x = y w has a matrix product's slices and chains. Weights in blocks would be unpacked once an element. */
static bool linear_input_accepts(const qn_node *n, qn_error *err)
{
    return want(n, n->src[0]->dtype == QN_DTYPE_F32 && real(n->src[1]->dtype), err);
}

static void linear_input_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *y = n->src[0], *w = n->src[1];
    const qn_layout rows = stretched(&n->layout, &y->layout, 1), columns = stretched(&n->layout, &w->layout, 2);
    qn_matmul_sizes s = {.k = w->layout.dim[0],
                         .a_step = y->layout.stride[y->layout.rank - 1],
                         .b_step = w->layout.stride[0],
                         .at = {.p = 1}};
    qn__gpu_walk(&s.at, &n->layout, (const qn_layout *const[]){&rows, &columns}, 2);
    (void)qn__gpu_format(y->dtype, &s.at.format[0]);
    (void)qn__gpu_format(w->dtype, &s.at.format[1]);
    (void)qn__gpu_format(n->dtype, &s.at.to);
    QN_GPU_LAUNCH(b, QN_GPU_matmul_real, qn__gpu_groups(QN_GPU_matmul_real, s.at.n), s, QN_GPU_OF(n), QN_GPU_OF(y),
                  QN_GPU_OF(w), QN_GPU_OF(w));
}

const qn_gpu_op qn__gpu_op_linear_input = {linear_input_accepts, NULL, linear_input_launch};

/* ---- writing by index ---- */

static const int32_t meetings[QN_COMBINE_COUNT] = {[QN_COMBINE_set] = QN_GPU_SET,
                                                   [QN_COMBINE_add] = QN_GPU_PLUS,
                                                   [QN_COMBINE_mul] = QN_GPU_TIMES,
                                                   [QN_COMBINE_max] = QN_GPU_HIGHER,
                                                   [QN_COMBINE_min] = QN_GPU_LOWER};

static bool scatter_accepts(const qn_node *n, qn_error *err)
{
    const qn_index_attrs *a = n->attrs;
    return want(n, a->strict == QN_STRICT_not && (plain(n->dtype) || a->mode == QN_COMBINE_set) && n->layout.rank > 0,
                err);
}

static void scatter_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_index_attrs *a = n->attrs;
    const qn_node *ids = n->src[1], *src = n->src[2];
    const int dim = a->dim;
    qn_layout y = n->layout, from = src->layout, id = ids->layout;
    qn_scatter_sizes s = {.size = y.dim[dim], .y_step = y.stride[dim], .src_step = from.stride[dim]};
    if (n->op == QN_OP_scatter) {
        s.id_step = id.stride[dim];
        s.n = id.dim[dim];
        for (int i = 0; i < id.rank; i++) y.dim[i] = from.dim[i] = id.dim[i];
    } else { /* one index for all lines */
        s.id_step = id.rank > 0 && id.dim[0] > 1 ? id.stride[0] : 0;
        s.n = from.dim[dim];
        id = from;
        for (int i = 0; i < id.rank; i++) id.stride[i] = 0;
        for (int i = 0; i < y.rank; i++) y.dim[i] = from.dim[i];
    }
    y.dim[dim] = from.dim[dim] = id.dim[dim] = 1;
    const qn_layout *const layouts[] = {&y, &from, &id};
    qn__gpu_walk(&s.lines, &y, layouts, 3);
    s.lines.what = qn_dtype_get(n->dtype)->block_bytes;
    s.lines.choice = meetings[a->mode];
    (void)qn__gpu_format(ids->dtype, &s.lines.format[2]);
    (void)qn__gpu_format(n->dtype, &s.lines.to);
    qn__gpu_move(b, n, &n->layout, n->src[0]);
    QN_GPU_LAUNCH(b, QN_GPU_scatter, qn__gpu_groups(QN_GPU_scatter, s.lines.n), s, QN_GPU_OF(n), QN_GPU_OF(src),
                  QN_GPU_OF(ids));
}

const qn_gpu_op qn__gpu_op_scatter = {scatter_accepts, NULL, scatter_launch};
const qn_gpu_op qn__gpu_op_index_add = {scatter_accepts, NULL, scatter_launch};

/* ---- counting ---- */

/* Reals: whole numbers, which doubles would hold exactly. */
static bool arange_accepts(const qn_node *n, qn_error *err)
{
    const qn_arange_attrs *a = n->attrs;
    const double furthest = fabs(a->start) + fabs(a->step) * (double)a->n;
    const bool exact = floor(a->start) == a->start && floor(a->step) == a->step && furthest < 0x1p53;
    return want(n, plain(n->dtype) && (!real(n->dtype) || exact), err);
}

static void arange_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_arange_attrs *a = n->attrs;
    const bool floats = real(n->dtype);
    qn_walk_sizes s = {.n = qn_layout_numel(&n->layout),
                       .w = floats ? (int64_t)a->start : a->whole_start,
                       .v = floats ? (int64_t)a->step : a->whole_step};
    (void)qn__gpu_format(n->dtype, &s.to);
    QN_GPU_LAUNCH(b, QN_GPU_count_up, qn__gpu_groups(QN_GPU_count_up, s.n), s, QN_GPU_OF(n), QN_GPU_OF(n));
}

const qn_gpu_op qn__gpu_op_arange = {arange_accepts, NULL, arange_launch};
