/* SPDX-License-Identifier: MIT */
/* src/gpu/op/layers.c -- element by element, norms, rotations, and rows by number. */
#include "gpu/gpu.h"

#include "gpu/kernels/sizes.h"

/* ---- element by element ---- */

/* Dense, float, and as large as the result. */
static bool pointwise_accepts(const qn_node *n, qn_error *err)
{
    if (!qn__gpu_want_dtype(n, "the result", n, QN_DTYPE_F32, err)) return false;
    for (int i = 0; i < n->n_src; i++) {
        const qn_node *x = n->src[i];
        if (!qn__gpu_want_dtype(n, "a source", x, QN_DTYPE_F32, err) || !qn__gpu_want_dense(n, "a source", x, err))
            return false;
        if (qn_layout_numel(&x->layout) == qn_layout_numel(&n->layout)) continue;
        QN_FAIL(err, unsupported, "%s: a source is smaller than the result", qn_node_op_name(n));
        return false;
    }
    return true;
}

static void pointwise_launch(qn_gpu_builder *b, const qn_node *n, qn_gpu_pointwise what)
{
    const qn_scale_attrs *a = n->op == QN_OP_scale ? n->attrs : NULL;
    const qn_pointwise_sizes s = {.n = qn_layout_numel(&n->layout),
                                  .what = what,
                                  .a = a ? a->scale : 0,
                                  .b = a ? a->bias : 0};
    QN_GPU_LAUNCH(b, QN_GPU_pointwise, qn__gpu_groups(QN_GPU_pointwise, s.n), s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]),
                  QN_GPU_OF(n->src[n->n_src - 1]));
}

#define POINTWISE(name, what) \
    static void name##_launch(qn_gpu_builder *b, const qn_node *n) { pointwise_launch(b, n, what); } \
    const qn_gpu_op qn__gpu_op_##name = {pointwise_accepts, NULL, name##_launch};
POINTWISE(add, QN_GPU_ADD)
POINTWISE(mul, QN_GPU_MUL)
POINTWISE(scale, QN_GPU_SCALE)
POINTWISE(silu, QN_GPU_SILU)
POINTWISE(swiglu, QN_GPU_SWIGLU)

/* ---- copies ---- */

static bool real_format(qn_dtype dtype, int32_t *out) { return qn__gpu_format(dtype, out) && *out != QN_GPU_Q8_0; }

static bool copy_accepts(const qn_node *n, qn_error *err)
{
    const qn_dtype from = n->src[0]->dtype, to = n->dtype;
    int32_t a, b;
    if (from == to && qn_dtype_get(to)->block_elems == 1) return true;
    if (real_format(from, &a) && real_format(to, &b)) return true;
    QN_FAIL(err, unsupported, "copy: no kernel from %s to %s", qn_dtype_get(from)->name, qn_dtype_get(to)->name);
    return false;
}

static void copy_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_layout *x = &n->src[0]->layout;
    qn_copy_sizes s = {.n = qn_layout_numel(&n->layout)};
    for (int i = 0; i < QN_MAX_RANK; i++) s.dim[i] = 1;
    for (int i = 0; i < x->rank; i++) {
        s.dim[QN_MAX_RANK - x->rank + i] = x->dim[i];
        s.stride[QN_MAX_RANK - x->rank + i] = x->stride[i];
    }
    if (n->dtype == n->src[0]->dtype)
        s.raw = qn_dtype_get(n->dtype)->block_bytes;
    else if (!real_format(n->src[0]->dtype, &s.from) || !real_format(n->dtype, &s.to))
        return;
    QN_GPU_LAUNCH(b, QN_GPU_copy, qn__gpu_groups(QN_GPU_copy, s.n), s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]));
}
_Static_assert(QN_MAX_RANK == 8, "qn_copy_sizes has room for eight dimensions");

const qn_gpu_op qn__gpu_op_copy = {copy_accepts, NULL, copy_launch};

/* ---- norms ---- */

static bool rms_norm_accepts(const qn_node *n, qn_error *err)
{
    return qn__gpu_want_dtype(n, "the result", n, QN_DTYPE_F32, err) && qn__gpu_want_rows(n, "x", n->src[0], err) &&
           (n->n_src < 2 || (qn__gpu_want_dtype(n, "the weight", n->src[1], QN_DTYPE_F32, err) &&
                             qn__gpu_want_dense(n, "the weight", n->src[1], err)));
}

static void rms_norm_launch(qn_gpu_builder *b, const qn_node *n)
{
    qn_gpu_rows x, y;
    if (!qn__gpu_rows_of(&n->src[0]->layout, &x) || !qn__gpu_rows_of(&n->layout, &y) || y.size == 0) return;
    const qn_norm_sizes s = {.n = x.size,
                             .x_stride = x.stride,
                             .y_stride = y.stride,
                             .eps = ((const qn_norm_attrs *)n->attrs)->eps,
                             .has_weight = n->n_src > 1};
    QN_GPU_LAUNCH(b, QN_GPU_rms_norm, y.n, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]), QN_GPU_OF(n->src[n->n_src - 1]));
}

const qn_gpu_op qn__gpu_op_rms_norm = {rms_norm_accepts, NULL, rms_norm_launch};

/* ---- rotations ---- */

static bool rope_apply_accepts(const qn_node *n, qn_error *err)
{
    return qn__gpu_want_dtype(n, "x", n->src[0], QN_DTYPE_F32, err) && qn__gpu_want_rows(n, "x", n->src[0], err) &&
           qn__gpu_want_rows(n, "the table", n->src[1], err);
}

static void rope_apply_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_rope_apply_attrs *a = n->attrs;
    qn_gpu_rows x, y, table;
    if (!qn__gpu_rows_of(&n->src[0]->layout, &x) || !qn__gpu_rows_of(&n->layout, &y) ||
        !qn__gpu_rows_of(&n->src[1]->layout, &table))
        return;
    const qn_layout *l = &n->layout;
    const qn_rope_sizes s = {.d = y.size,
                             .n_rot = a->n_rot,
                             .x_stride = x.stride,
                             .y_stride = y.stride,
                             .table_stride = table.stride,
                             .n_table = table.n,
                             .heads = a->heads_first ? l->dim[l->rank - 3] : l->dim[l->rank - 2],
                             .tokens = a->heads_first ? l->dim[l->rank - 2] : 1,
                             .heads_first = a->heads_first,
                             .neox = a->mode == QN_ROPE_NEOX,
                             .back = a->back};
    if (table.n > 0)
        QN_GPU_LAUNCH(b, QN_GPU_rope_apply, y.n, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]), QN_GPU_OF(n->src[1]));
}

const qn_gpu_op qn__gpu_op_rope_apply = {rope_apply_accepts, NULL, rope_apply_launch};

/* ---- rows by number ---- */

static const struct {
    bool there;
    int32_t format;
} formats[QN_DTYPE_COUNT] = {[QN_DTYPE_F32] = {true, QN_GPU_F32},
                             [QN_DTYPE_F16] = {true, QN_GPU_F16},
                             [QN_DTYPE_BF16] = {true, QN_GPU_BF16},
                             [QN_DTYPE_Q8_0] = {true, QN_GPU_Q8_0}};

bool qn__gpu_format(qn_dtype dtype, int32_t *out)
{
    *out = formats[dtype].format;
    return formats[dtype].there;
}

bool qn__gpu_want_format(const qn_node *user, const char *what, const qn_node *n, qn_error *err)
{
    if (formats[n->dtype].there) return true;
    QN_FAIL(err, unsupported, "%s: no kernel reads %s in %s", qn_node_op_name(user), what,
            qn_dtype_get(n->dtype)->name);
    return false;
}

static bool get_rows_accepts(const qn_node *n, qn_error *err)
{
    return qn__gpu_want_format(n, "the table", n->src[0], err) && qn__gpu_want_rows(n, "the table", n->src[0], err) &&
           qn__gpu_want_dtype(n, "the ids", n->src[1], QN_DTYPE_I32, err);
}

static int64_t entry_stride(const qn_node *ids)
{
    return ids->layout.rank > 0 && ids->layout.dim[ids->layout.rank - 1] > 1 ? ids->layout.stride[ids->layout.rank - 1]
                                                                             : 1;
}

static void get_rows_launch(qn_gpu_builder *b, const qn_node *n)
{
    qn_gpu_rows table, y;
    qn_get_rows_sizes s = {0};
    if (!qn__gpu_rows_of(&n->src[0]->layout, &table) || !qn__gpu_rows_of(&n->layout, &y) ||
        !qn__gpu_format(n->src[0]->dtype, &s.format))
        return;
    s.m = y.size;
    s.n_rows = table.n;
    s.table_stride = table.n > 1 ? table.stride : table.size;
    s.id_stride = entry_stride(n->src[1]);
    QN_GPU_LAUNCH(b, QN_GPU_get_rows, y.n, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]), QN_GPU_OF(n->src[1]));
}

const qn_gpu_op qn__gpu_op_get_rows = {get_rows_accepts, NULL, get_rows_launch};

static bool set_rows_accepts(const qn_node *n, qn_error *err)
{
    const qn_node *dst = n->src[0], *x = n->src[1];
    if (dst->dtype == QN_DTYPE_Q8_0) {
        QN_FAIL(err, unsupported, "set_rows: no kernel writes %s", qn_dtype_get(dst->dtype)->name);
        return false;
    }
    return qn__gpu_want_format(n, "the destination", dst, err) && qn__gpu_want_rows(n, "the destination", dst, err) &&
           qn__gpu_want_dtype(n, "x", x, QN_DTYPE_F32, err) && qn__gpu_want_rows(n, "x", x, err) &&
           qn__gpu_want_dtype(n, "the row numbers", n->src[2], QN_DTYPE_I32, err);
}

static void set_rows_launch(qn_gpu_builder *b, const qn_node *n)
{
    qn_gpu_rows dst, x;
    qn_set_rows_sizes s = {0};
    if (!qn__gpu_rows_of(&n->src[0]->layout, &dst) || !qn__gpu_rows_of(&n->src[1]->layout, &x) ||
        !qn__gpu_format(n->src[0]->dtype, &s.format))
        return;
    s.m = x.size;
    s.n = x.n;
    s.n_rows = dst.n;
    s.dst_stride = dst.stride;
    s.x_stride = x.stride;
    s.row_stride = entry_stride(n->src[2]);
    QN_GPU_LAUNCH(b, QN_GPU_set_rows, x.n, s, QN_GPU_OF(n->src[0]), QN_GPU_OF(n->src[1]), QN_GPU_OF(n->src[2]));
}

const qn_gpu_op qn__gpu_op_set_rows = {set_rows_accepts, NULL, set_rows_launch};
