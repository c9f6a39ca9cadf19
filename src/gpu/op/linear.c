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

/* A sum of nothing is 0, or the bias: kernels loop over blocks of k, and are not even launched where there is none. */
static bool want_elements(const qn_node *n, qn_error *err)
{
    const qn_layout *x = &n->src[0]->layout;
    if (x->dim[x->rank - 1] > 0) return true;
    QN_FAIL(err, unsupported, "%s: no kernel of rows without elements", qn_node_op_name(n));
    return false;
}

static bool accepts(const qn_node *n, qn_error *err)
{
    const qn_node *x = n->src[0], *w = n->src[1], *bias = n->n_src > 2 ? n->src[2] : NULL;
    qn_gpu_rows rows;
    if (!want_elements(n, err)) return false;
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
    return p->block == 0 ? 0
                         : (uint64_t)(k / p->block) * (uint64_t)(p->block == 32 ? QN_GPU_COLUMN_32 : QN_GPU_COLUMN_256);
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

static qn_gpu_kernel choose(const qn_gpu_device_info *info, const product *p, const qn_linear_sizes *s)
{
    if (p->block && info->matrices && s->n_columns > FEW && !s->u) return p->tile;
    return p->block && info->warps ? p->rows : p->kernel;
}

static int64_t groups_of(const product *p, qn_gpu_kernel by, const qn_linear_sizes *s, int64_t m)
{
    if (by == p->tile && p->block)
        return (m + TILE_ROWS - 1) / TILE_ROWS * ((s->n_columns + TILE_COLUMNS - 1) / TILE_COLUMNS);
    if (by == p->rows && p->block) return (m + ROWS_OF_GROUP - 1) / ROWS_OF_GROUP * s->n_columns;
    return qn__gpu_groups(by, m) * s->n_columns;
}

static bool has_experts(const qn_node *n) { return n->op == QN_OP_linear_experts; }

static const qn_node *bias_of(const qn_node *n)
{
    const int at = has_experts(n) ? 3 : 2;
    return n->n_src > at ? n->src[at] : NULL;
}

/* What job i says of itself. */
static bool set_job(qn_linear_sizes *s, int i, const qn_node *n)
{
    const qn_node *w = n->src[1], *bias = bias_of(n);
    const qn_layout *l = &w->layout;
    s->has_bias[i] = bias != NULL;
    if (has_experts(n)) {
        s->m[i] = l->dim[1];
        s->w_bytes[i] = bytes_of(w, l->dim[1] > 1 ? l->stride[1] : l->dim[2]);
        s->expert_bytes[i] = bytes_of(w, l->dim[0] > 1 ? l->stride[0] : 0);
        s->bias_row[i] = bias ? bias->layout.stride[0] : 0;
        return true;
    }
    qn_gpu_rows rows;
    if (!qn__gpu_rows_of(l, &rows)) return false;
    s->m[i] = rows.n;
    s->w_bytes[i] = bytes_of(w, rows.n > 1 ? rows.stride : rows.size);
    return true;
}

/* What all jobs share; false: there is nothing to compute. */
static bool set_columns(qn_linear_sizes *s, const qn_node *n)
{
    const qn_layout *x = &n->src[0]->layout;
    *s = (qn_linear_sizes){.k = x->dim[x->rank - 1]};
    if (s->k <= 0 || !qn__gpu_format(n->src[1]->dtype, &s->format)) return false;
    s->n_columns = qn_layout_numel(x) / s->k;
    if (!has_experts(n)) return true;
    const qn_layout *id = &n->src[2]->layout;
    s->n_columns = id->dim[0] * id->dim[1];
    s->id_row = id->stride[0];
    s->id_step = id->stride[1];
    s->u = (int32_t)id->dim[1];
    s->shared_x = x->rank == 2;
    s->n_experts = (int32_t)n->src[1]->layout.dim[0];
    return qn__gpu_format(n->src[2]->dtype, &s->id_format);
}

static void quantize_columns(qn_gpu_builder *b, const qn_node *x, const product *p, const qn_linear_sizes *s,
                             int64_t rows)
{
    const qn_gpu_kernel kernel = p->block == 32 ? QN_GPU_quantize_32 : QN_GPU_quantize_256;
    const qn_quantize_sizes q = {.k = s->k, .n_columns = rows, .x = s->x};
    QN_GPU_LAUNCH(b, kernel, rows * ((s->k + 255) / 256), q, QN_GPU_SCRATCH(0), QN_GPU_OF(x));
}

/* Of one format: one launch. */
static void launch_alike(qn_gpu_builder *b, const qn_node *const *n, int count, const qn_linear_sizes *columns,
                         const qn_node *sum)
{
    const qn_node *first = n[0], *x = first->src[0], *w[QN_GPU_MAX_JOBS], *bias[QN_GPU_MAX_JOBS], *y[QN_GPU_MAX_JOBS];
    const product p = product_of(first->src[1]->dtype);
    qn_linear_sizes s = *columns;
    const qn_gpu_kernel by = choose(qn__gpu_info(b), &p, &s);
    int64_t groups = 0;
    s.n_jobs = count;
    s.has_sum = sum != NULL;
    if (!qn__gpu_format(first->src[1]->dtype, &s.format)) return;
    for (int i = 0; i < QN_GPU_MAX_JOBS; i++) {
        const qn_node *job = n[i < count ? i : 0];
        y[i] = job;
        w[i] = job->src[1];
        bias[i] = bias_of(job) ? bias_of(job) : job;
        if (i >= count) continue;
        if (!set_job(&s, i, job)) return;
        s.groups[i] = groups_of(&p, by, &s, s.m[i]);
        groups += s.groups[i];
    }
    const qn_node *ids = has_experts(first) ? first->src[2] : first, *all = sum ? sum : first;
    const qn_node *other = !sum ? first : sum->src[0] == first ? sum->src[1] : sum->src[0];
    const qn_gpu_value from = p.block ? (qn_gpu_value)QN_GPU_SCRATCH(0) : (qn_gpu_value)QN_GPU_OF(x);
    QN_GPU_LAUNCH(b, by, groups, s, QN_GPU_OF(y[0]), from, QN_GPU_OF(w[0]), QN_GPU_OF(bias[0]), QN_GPU_OF(ids),
                  QN_GPU_OF(y[1]), QN_GPU_OF(w[1]), QN_GPU_OF(bias[1]), QN_GPU_OF(y[2]), QN_GPU_OF(w[2]),
                  QN_GPU_OF(bias[2]), QN_GPU_OF(all), QN_GPU_OF(other));
}

int qn__gpu_column_block(const qn_node *product_node) { return product_of(product_node->src[1]->dtype).block; }

bool qn__gpu_products_alike(const qn_node *a, const qn_node *b)
{
    if (a->op != b->op || a->src[0] != b->src[0]) return false;
    if (has_experts(a) && (a->src[2] != b->src[2] || a->src[1]->layout.dim[0] != b->src[1]->layout.dim[0]))
        return false;
    return qn__gpu_column_block(a) == qn__gpu_column_block(b);
}

void qn__gpu_products(qn_gpu_builder *b, const qn_node *const *n, int count, bool columns, const qn_node *sum)
{
    const qn_node *x = n[0]->src[0];
    const product p = product_of(n[0]->src[1]->dtype);
    qn_linear_sizes s;
    int64_t rows = 0;
    bool done[QN_GPU_MAX_JOBS] = {false};
    if (!set_columns(&s, n[0]) || !qn__gpu_rows_at(&x->layout, &s.x, &rows)) return;
    if (p.block && !columns) quantize_columns(b, x, &p, &s, rows);
    for (int i = 0; i < count; i++) {
        const qn_node *alike[QN_GPU_MAX_JOBS];
        int n_alike = 0;
        for (int j = i; j < count; j++) {
            if (done[j] || n[j]->src[1]->dtype != n[i]->src[1]->dtype) continue;
            alike[n_alike++] = n[j];
            done[j] = true;
        }
        if (n_alike) launch_alike(b, alike, n_alike, &s, sum);
    }
}

static void launch(qn_gpu_builder *b, const qn_node *n) { qn__gpu_products(b, &n, 1, false, NULL); }

const qn_gpu_op qn__gpu_op_linear = {accepts, scratch, launch};

/* ---- a mixture of experts ---- */

static bool experts_accepts(const qn_node *n, qn_error *err)
{
    const qn_node *x = n->src[0], *w = n->src[1], *ids = n->src[2], *bias = n->n_src > 3 ? n->src[3] : NULL;
    if (!want_elements(n, err)) return false;
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

const qn_gpu_op qn__gpu_op_linear_experts = {experts_accepts, scratch, launch};
