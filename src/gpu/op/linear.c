/* SPDX-License-Identifier: MIT */
/* src/gpu/op/linear.c -- y = x w^T (+ b): columns are quantized as the weight's format wants, then multiplied;
 * with all rows of the weight, or with those of the expert that ids names. */
#include "gpu/gpu.h"

#include "gpu/kernels/sizes.h"

/* What multiplies weights of a format, in general, and on devices with warps few and many columns; block: elements of a
 * quantized block of columns, 0 for columns of floats. */
typedef struct product {
    qn_gpu_kernel kernel;
    int block;
    qn_gpu_kernel rows, tile;
} product;

static const product products[QN_DTYPE_COUNT] = {
#define QN_GPU_INTS(name, block) \
    [QN_DTYPE_##name] = {QN_GPU_linear_##name, block, QN_GPU_rows_##name, QN_GPU_tile_##name},
#include "gpu/kernels/ints.def"
#undef QN_GPU_INTS
};

static product product_of(qn_dtype dtype)
{
    return products[dtype].block ? products[dtype] : (product){.kernel = QN_GPU_linear_float};
}

static bool accepts(const qn_node *n, qn_error *err)
{
    const qn_node *x = n->src[0], *w = n->src[1], *bias = n->n_src > 2 ? n->src[2] : NULL;
    qn_gpu_rows rows;
    if (!qn__gpu_rows_of(&w->layout, &rows)) {
        QN_FAIL(err, unsupported, "linear: the weight's rows lie at uneven distances");
        return false;
    }
    return qn__gpu_want_format(n, "the weight", w, err) && qn__gpu_want_dtype(n, "x", x, QN_DTYPE_F32, err) &&
           qn__gpu_want_rows(n, "x", x, err) &&
           (!bias || (qn__gpu_want_dtype(n, "the bias", bias, QN_DTYPE_F32, err) &&
                      qn__gpu_want_dense(n, "the bias", bias, err)));
}

static uint64_t column_bytes(const product *p, int64_t k)
{
    return p->block == 0 ? 0 : (uint64_t)(k / p->block) * (p->block == 32 ? 40 : 296);
}

static uint64_t scratch(const qn_node *n)
{
    const product p = product_of(n->src[1]->dtype);
    const qn_layout *x = &n->src[0]->layout;
    const int64_t k = x->dim[x->rank - 1];
    return k > 0 ? (uint64_t)(qn_layout_numel(x) / k) * column_bytes(&p, k) : 0;
}

static int64_t bytes_of(const qn_node *w, int64_t elems)
{
    const qn_dtype_info *d = qn_dtype_get(w->dtype);
    return elems / d->block_elems * d->block_bytes;
}

/* FEW: up to there a tile's other columns would be idle for the most part. */
enum { FEW = 2, ROWS_OF_GROUP = 4, TILE_ROWS = 16, TILE_COLUMNS = 32 };

static qn_gpu_kernel choose(const qn_gpu_device_info *info, const product *p, const qn_linear_sizes *s, int64_t *groups)
{
    if (p->block && info->matrices && s->n_columns > FEW && !s->u) {
        *groups = (s->m + TILE_ROWS - 1) / TILE_ROWS * ((s->n_columns + TILE_COLUMNS - 1) / TILE_COLUMNS);
        return p->tile;
    }
    if (p->block && info->warps) {
        *groups = (s->m + ROWS_OF_GROUP - 1) / ROWS_OF_GROUP * s->n_columns;
        return p->rows;
    }
    *groups = qn__gpu_groups(p->kernel, s->m) * s->n_columns;
    return p->kernel;
}

/* The columns, then the products: n_columns of them, which are the rows of x, or several of a token share its x. */
static void launch_product(qn_gpu_builder *b, const qn_node *n, qn_linear_sizes *s, const qn_node *bias,
                           const qn_node *ids)
{
    const qn_node *x = n->src[0], *w = n->src[1];
    const product p = product_of(w->dtype);
    int64_t rows = 0;
    if (!qn__gpu_rows_at(&x->layout, &s->x, &rows) || !qn__gpu_format(w->dtype, &s->format)) return;
    int64_t n_groups = 0;
    const qn_gpu_kernel by = choose(qn__gpu_info(b), &p, s, &n_groups);
    if (p.block == 0) {
        QN_GPU_LAUNCH(b, by, n_groups, *s, QN_GPU_OF(n), QN_GPU_OF(x), QN_GPU_OF(w), QN_GPU_OF(bias), QN_GPU_OF(ids));
        return;
    }
    const qn_gpu_kernel kernel = p.block == 32 ? QN_GPU_quantize_32 : QN_GPU_quantize_256;
    const qn_quantize_sizes q = {.k = s->k, .n_columns = rows, .x = s->x};
    QN_GPU_LAUNCH(b, kernel, qn__gpu_groups(kernel, rows * (s->k / p.block)), q, QN_GPU_SCRATCH(0), QN_GPU_OF(x));
    QN_GPU_LAUNCH(b, by, n_groups, *s, QN_GPU_OF(n), QN_GPU_SCRATCH(0), QN_GPU_OF(w), QN_GPU_OF(bias), QN_GPU_OF(ids));
}

static void launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *x = n->src[0], *w = n->src[1];
    qn_gpu_rows rows;
    if (!qn__gpu_rows_of(&w->layout, &rows)) return;
    const int64_t k = x->layout.dim[x->layout.rank - 1];
    qn_linear_sizes s = {.k = k,
                         .m = rows.n,
                         .n_columns = k > 0 ? qn_layout_numel(&x->layout) / k : 0,
                         .w_bytes = bytes_of(w, rows.n > 1 ? rows.stride : rows.size),
                         .has_bias = n->n_src > 2};
    launch_product(b, n, &s, n->n_src > 2 ? n->src[2] : n, n);
}

const qn_gpu_op qn__gpu_op_linear = {accepts, scratch, launch};

/* ---- a mixture of experts ---- */

static bool experts_accepts(const qn_node *n, qn_error *err)
{
    const qn_node *x = n->src[0], *w = n->src[1], *ids = n->src[2], *bias = n->n_src > 3 ? n->src[3] : NULL;
    if (((const qn_strict_attrs *)n->attrs)->strict != QN_STRICT_not) {
        QN_FAIL(err, unsupported, "linear_experts: no kernel that tells of a bad index");
        return false;
    }
    if (w->layout.dim[0] > INT32_MAX || ids->layout.dim[1] > INT32_MAX || bytes_of(w, w->layout.stride[1]) < 0 ||
        (bias && bias->layout.dim[1] > 1 && bias->layout.stride[1] != 1)) {
        QN_FAIL(err, unsupported, "linear_experts: no kernel of this layout");
        return false;
    }
    return qn__gpu_want_format(n, "the weight", w, err) && qn__gpu_want_rows(n, "the weight", w, err) &&
           qn__gpu_want_dtype(n, "x", x, QN_DTYPE_F32, err) && qn__gpu_want_rows(n, "x", x, err) &&
           qn__gpu_want_ids(n, "the ids", ids, err) &&
           (!bias || qn__gpu_want_dtype(n, "the bias", bias, QN_DTYPE_F32, err));
}

static void experts_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *x = n->src[0], *w = n->src[1], *ids = n->src[2], *bias = n->n_src > 3 ? n->src[3] : NULL;
    const qn_layout *l = &w->layout, *id = &ids->layout;
    qn_linear_sizes s = {.k = l->dim[2],
                         .m = l->dim[1],
                         .n_columns = id->dim[0] * id->dim[1],
                         .w_bytes = bytes_of(w, l->dim[1] > 1 ? l->stride[1] : l->dim[2]),
                         .expert_bytes = bytes_of(w, l->dim[0] > 1 ? l->stride[0] : 0),
                         .bias_row = bias ? bias->layout.stride[0] : 0,
                         .id_row = id->stride[0],
                         .id_step = id->stride[1],
                         .has_bias = bias != NULL,
                         .u = (int32_t)id->dim[1],
                         .shared_x = x->layout.rank == 2,
                         .n_experts = (int32_t)l->dim[0]};
    if (s.k > 0 && qn__gpu_format(ids->dtype, &s.id_format)) launch_product(b, n, &s, bias ? bias : n, ids);
}

const qn_gpu_op qn__gpu_op_linear_experts = {experts_accepts, scratch, experts_launch};
