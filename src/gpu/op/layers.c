/* SPDX-License-Identifier: MIT */
/* src/gpu/op/layers.c -- norms, rotations, and rows by number. */
#include "gpu/gpu.h"
#include "quant/quant.h"

static int64_t bytes_of(qn_dtype dtype, int64_t elems)
{
    const qn_dtype_info *d = qn_dtype_get(dtype);
    return elems / d->block_elems * d->block_bytes;
}

/* ---- norms ---- */

static bool norm_accepts(const qn_node *n, qn_error *err)
{
    if (!qn__gpu_want_dtype(n, "the result", n, QN_DTYPE_F32, err) || !qn__gpu_want_rows(n, "x", n->src[0], err))
        return false;
    for (int i = 1; i < n->n_src; i++)
        if (!qn__gpu_want_dtype(n, "the weight", n->src[i], QN_DTYPE_F32, err) ||
            !qn__gpu_want_dense(n, "the weight", n->src[i], err))
            return false;
    return true;
}

static int64_t norm_sizes(const qn_node *n, float eps, qn_norm_sizes *s)
{
    const qn_layout *l = &n->layout;
    int64_t rows = 0;
    *s = (qn_norm_sizes){.n = l->rank ? l->dim[l->rank - 1] : 1,
                         .eps = eps,
                         .has_weight = n->n_src > 1,
                         .has_bias = n->n_src > 2};
    return s->n > 0 && qn__gpu_rows_at(&n->src[0]->layout, &s->x, &rows) ? rows : 0;
}

static void rms_norm_launch(qn_gpu_builder *b, const qn_node *n)
{
    qn_norm_sizes s;
    const int64_t rows = norm_sizes(n, ((const qn_norm_attrs *)n->attrs)->eps, &s);
    QN_GPU_LAUNCH(b, QN_GPU_rms_norm, rows, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]), QN_GPU_OF(n->src[n->n_src - 1]));
}

static void layer_norm_launch(qn_gpu_builder *b, const qn_node *n)
{
    qn_norm_sizes s;
    const int64_t rows = norm_sizes(n, (float)((const qn_layer_norm_attrs *)n->attrs)->eps, &s);
    QN_GPU_LAUNCH(b, QN_GPU_layer_norm, rows, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]),
                  QN_GPU_OF(n->src[n->n_src > 1 ? 1 : 0]), QN_GPU_OF(n->src[n->n_src - 1]));
}

const qn_gpu_op qn__gpu_op_rms_norm = {norm_accepts, NULL, rms_norm_launch};
const qn_gpu_op qn__gpu_op_layer_norm = {norm_accepts, NULL, layer_norm_launch};

/* ---- rotations ---- */

static bool rope_apply_accepts(const qn_node *n, qn_error *err)
{
    return qn__gpu_want_dtype(n, "x", n->src[0], QN_DTYPE_F32, err) && qn__gpu_want_rows(n, "x", n->src[0], err) &&
           qn__gpu_want_rows(n, "the table", n->src[1], err);
}

static void rope_apply_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_rope_apply_attrs *a = n->attrs;
    const qn_layout *l = &n->layout;
    int64_t rows = 0;
    qn_rope_sizes s = {.d = l->dim[l->rank - 1],
                       .n_rot = a->n_rot,
                       .heads = a->heads_first ? l->dim[l->rank - 3] : l->dim[l->rank - 2],
                       .tokens = a->heads_first ? l->dim[l->rank - 2] : 1,
                       .heads_first = a->heads_first,
                       .neox = a->mode == QN_ROPE_NEOX,
                       .back = a->back};
    if (qn__gpu_rows_at(&n->src[0]->layout, &s.x, &rows) && qn__gpu_rows_at(&n->src[1]->layout, &s.table, &s.n_table) &&
        s.n_table > 0)
        QN_GPU_LAUNCH(b, QN_GPU_rope_apply, rows, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]), QN_GPU_OF(n->src[1]));
}

const qn_gpu_op qn__gpu_op_rope_apply = {rope_apply_accepts, NULL, rope_apply_launch};

/* ---- rows by number ---- */

/* Of a table [n, m], from one row to the next. */
static int64_t row_bytes(const qn_node *table)
{
    return bytes_of(table->dtype, table->layout.dim[0] > 1 ? table->layout.stride[0] : table->layout.dim[1]);
}

static bool get_rows_accepts(const qn_node *n, qn_error *err)
{
    return qn__gpu_want_format(n, "the table", n->src[0], err) && qn__gpu_want_rows(n, "the table", n->src[0], err) &&
           qn__gpu_want_ids(n, "the ids", n->src[1], err);
}

static void get_rows_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *table = n->src[0], *ids = n->src[1];
    qn_get_rows_sizes s = {.m = table->layout.dim[1], .n_rows = table->layout.dim[0], .table_bytes = row_bytes(table)};
    if (qn__gpu_format(table->dtype, &s.format) && qn__gpu_format(ids->dtype, &s.id_format) &&
        qn__gpu_ids_at(&ids->layout, &s.ids))
        QN_GPU_LAUNCH(b, QN_GPU_get_rows, qn_layout_numel(&ids->layout), s, QN_GPU_OF(n), QN_GPU_OF(table),
                      QN_GPU_OF(ids));
}

const qn_gpu_op qn__gpu_op_get_rows = {get_rows_accepts, NULL, get_rows_launch};

static bool set_rows_accepts(const qn_node *n, qn_error *err)
{
    const qn_node *dst = n->src[0], *x = n->src[1];
    const bool numbers = dst->dtype == QN_DTYPE_I32; /* four bytes each, as they are */
    if (!numbers && (!qn__quant_get(dst->dtype)->packs_fast || dst->dtype == QN_DTYPE_F64)) {
        QN_FAIL(err, unsupported, "set_rows: no kernel writes %s", qn_dtype_get(dst->dtype)->name);
        return false;
    }
    return qn__gpu_want_rows(n, "the destination", dst, err) &&
           qn__gpu_want_dtype(n, "x", x, numbers ? QN_DTYPE_I32 : QN_DTYPE_F32, err) &&
           qn__gpu_want_rows(n, "x", x, err) && qn__gpu_want_ids(n, "the row numbers", n->src[2], err);
}

static void set_rows_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *dst = n->src[0], *x = n->src[1], *ids = n->src[2];
    qn_set_rows_sizes s = {.m = dst->layout.dim[1], .n_rows = dst->layout.dim[0], .dst_bytes = row_bytes(dst)};
    const qn_dtype_info *d = qn_dtype_get(dst->dtype);
    s.block_bytes = d->block_elems > 1 ? d->block_bytes : 0;
    if (qn__gpu_format(dst->dtype == QN_DTYPE_I32 ? QN_DTYPE_F32 : dst->dtype, &s.format) &&
        qn__gpu_format(ids->dtype, &s.id_format) && qn__gpu_rows_at(&x->layout, &s.x, &s.n) &&
        qn__gpu_ids_at(&ids->layout, &s.ids))
        QN_GPU_LAUNCH(b, QN_GPU_set_rows, s.n, s, QN_GPU_OF(dst), QN_GPU_OF(x), QN_GPU_OF(ids));
}

const qn_gpu_op qn__gpu_op_set_rows = {set_rows_accepts, NULL, set_rows_launch};
