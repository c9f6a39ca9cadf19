/* SPDX-License-Identifier: MIT */
/* src/cpu/op/index/scatter.c -- scatter and index_add: y starts as x; then elements of src are written or combined
 * by an index along one dimension. Writes to one element happen in the order of the index, since one thread owns
 * whole lines along that dimension: an item is such a line where it is the last dimension, else a strip of STRIP
 * neighbouring lines. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

enum { STRIP = 64, RUN = 512 };

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return qn__want_plain(node, "x", node->src[0], err);
}

static int dim_of(const qn_node *node) { return ((const qn_index_attrs *)node->attrs)->dim; }

/* Lines of a layout along dim: all others; strips where dim is not the last. */
static int64_t lines_of(const qn_layout *l, int dim)
{
    const int last = l->rank - 1;
    int64_t n = 1;
    for (int i = 0; i < last; i++)
        if (i != dim) n *= l->dim[i];
    return l->rank == 0 || dim == last ? n : n * ((l->dim[last] + STRIP - 1) / STRIP);
}

/* Which elements are written: the shape of the index for scatter, of src for index_add. */
static const qn_layout *written(const qn_node *node)
{
    return node->op == QN_OP_scatter ? &node->src[1]->layout : &node->src[2]->layout;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    if (phase == 0) return qn__copied_rows(node, chunk);
    const qn_layout *w = written(node);
    const int64_t n = w->rank ? w->dim[dim_of(node)] : 1;
    *chunk = qn__chunk_of(4096, n * (w->rank && dim_of(node) != w->rank - 1 ? STRIP : 1));
    return qn_layout_numel(w) > 0 && qn_layout_numel(&node->layout) > 0 ? lines_of(w, dim_of(node)) : 0;
}

/* The line or strip of an item: its index in every dimension but dim, and its range in the last. */
typedef struct strip {
    int64_t place[QN_MAX_RANK], begin, n;
} strip;

static strip strip_of(const qn_layout *w, int dim, int64_t item)
{
    strip s = {.begin = 0, .n = 1};
    const int last = w->rank - 1;
    if (w->rank == 0) return s;
    if (dim != last) {
        const int64_t per_row = (w->dim[last] + STRIP - 1) / STRIP;
        s.begin = item % per_row * STRIP;
        s.n = w->dim[last] - s.begin < STRIP ? w->dim[last] - s.begin : STRIP;
        item /= per_row;
    }
    for (int i = last - 1; i >= 0; i--) {
        if (i == dim) continue;
        s.place[i] = item % w->dim[i];
        item /= w->dim[i];
    }
    return s;
}

static int64_t start_of(const qn_layout *l, const strip *s, int dim)
{
    int64_t at = 0;
    for (int i = 0; i + 1 < l->rank; i++)
        if (i != dim) at += s->place[i] * l->stride[i];
    return l->rank && dim != l->rank - 1 ? at + s->begin * l->stride[l->rank - 1] : at;
}

/* ---- scatter --------------------------------------------------------------------------------- */

static void run_scatter(const qn_task *t)
{
    if (t->phase == 0) {
        qn__copy_rows(t);
        return;
    }
    const qn_index_attrs *attrs = t->attrs;
    const qn_view *ids = &t->src[1], *src = &t->src[2];
    const qn_layout *w = &ids->layout, *yl = &t->dst.layout;
    const int rank = w->rank, dim = attrs->dim;
    const bool along = rank == 0 || dim == rank - 1; /* the index runs along the last dimension */
    const int64_t size = rank ? yl->dim[dim] : 1, n = rank ? w->dim[dim] : 1;
    const int64_t y_dim = rank ? yl->stride[dim] : 0, id_dim = rank ? w->stride[dim] : 0,
                  src_dim = rank ? src->layout.stride[dim] : 0;
    void (*const scatter)(void *, const int64_t *, const void *, int64_t, int64_t) =
        qn__typed(t->dst.dtype)->scatter[attrs->mode];
    int64_t at[RUN];

    for (int64_t item = t->begin; item < t->end; item++) {
        const strip s = strip_of(w, dim, item);
        uint8_t *y = qn__elem_at(&t->dst, start_of(yl, &s, dim));
        const int64_t id0 = start_of(w, &s, dim), src0 = start_of(&src->layout, &s, dim);
        if (along) {
            for (int64_t j = 0; j < n; j += RUN) {
                const int64_t m = n - j < RUN ? n - j : RUN;
                if (qn__places(at, ids, id0 + j * id_dim, id_dim, m, size, y_dim) && attrs->strict)
                    qn__report_indices(t, attrs->strict, dim, ids, id0 + j * id_dim, id_dim, m, size);
                scatter(y, at, qn__elem_at(src, src0 + j * src_dim), src_dim, m);
            }
            continue;
        }
        const int64_t id_step = qn__row_step(w), src_step = qn__row_step(&src->layout);
        for (int64_t j = 0; j < n; j++) {
            if (qn__places(at, ids, id0 + j * id_dim, id_step, s.n, size, y_dim) && attrs->strict)
                qn__report_indices(t, attrs->strict, dim, ids, id0 + j * id_dim, id_step, s.n, size);
            for (int64_t i = 0; i < s.n; i++) at[i] += at[i] < 0 ? 0 : i;
            scatter(y, at, qn__elem_at(src, src0 + j * src_dim), src_step, s.n);
        }
    }
}

const qn_cpu_op qn__cpu_op_scatter = {QN_OP_scatter, accepts, NULL, 2, items, run_scatter};

/* ---- index_add ------------------------------------------------------------------------------- */

static void run_add(const qn_task *t)
{
    if (t->phase == 0) {
        qn__copy_rows(t);
        return;
    }
    const qn_index_attrs *attrs = t->attrs;
    const qn_view *ids = &t->src[1], *src = &t->src[2];
    const qn_layout *w = &src->layout, *yl = &t->dst.layout;
    const int dim = attrs->dim;
    const bool along = dim == w->rank - 1;
    const int64_t size = yl->dim[dim], n = w->dim[dim], y_dim = yl->stride[dim], id_step = qn__row_step(&ids->layout);
    const qn_typed *type = qn__typed(t->dst.dtype);
    /* gradients of embeddings */
    const bool floats = t->dst.dtype == QN_DTYPE_F32 && attrs->mode == QN_COMBINE_add && qn__row_step(w) == 1;
    int64_t at[RUN];

    for (int64_t item = t->begin; item < t->end; item++) {
        const strip s = strip_of(w, dim, item);
        const int64_t y0 = start_of(yl, &s, dim), src0 = start_of(w, &s, dim);
        if (along) {
            for (int64_t j = 0; j < n; j += RUN) {
                const int64_t m = n - j < RUN ? n - j : RUN;
                if (qn__places(at, ids, j * id_step, id_step, m, size, y_dim) && attrs->strict)
                    qn__report_indices(t, attrs->strict, dim, ids, j * id_step, id_step, m, size);
                type->scatter[attrs->mode](qn__elem_at(&t->dst, y0), at, qn__elem_at(src, src0 + j * w->stride[dim]),
                                           w->stride[dim], m);
            }
            continue;
        }
        for (int64_t j = 0; j < n; j++) {
            const int64_t id = qn__index_at(ids, j * id_step);
            if (id < 0 || id >= size) {
                if (attrs->strict) qn__bad_index(t, attrs->strict, dim, id, size);
                continue;
            }
            uint8_t *y = qn__elem_at(&t->dst, y0 + id * y_dim);
            const uint8_t *x = qn__elem_at(src, src0 + j * w->stride[dim]);
            if (floats)
                t->kernels->add_f32((float *)(void *)y, (const float *)(void *)y, (const float *)(const void *)x, s.n);
            else
                type->combine[attrs->mode](y, 1, x, qn__row_step(w), s.n);
        }
    }
}

const qn_cpu_op qn__cpu_op_index_add = {QN_OP_index_add, accepts, NULL, 2, items, run_add};
