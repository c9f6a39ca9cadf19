/* SPDX-License-Identifier: MIT */
/* src/gpu/op/linear.c -- y = x w^T (+ b): columns are quantized as the weight's format wants, then multiplied. */
#include "gpu/gpu.h"

#include "gpu/kernels/sizes.h"

/* What multiplies weights of a format; block: elements of a quantized block of columns, 0 for columns of floats. */
typedef struct product {
    bool there;
    qn_gpu_kernel kernel;
    int block;
} product;

static const product products[QN_DTYPE_COUNT] = {
#define QN_GPU_INTS(name, block) [QN_DTYPE_##name] = {true, QN_GPU_linear_##name, block},
#include "gpu/kernels/ints.def"
#undef QN_GPU_INTS
    [QN_DTYPE_F32] = {true, QN_GPU_linear_float, 0},
    [QN_DTYPE_F16] = {true, QN_GPU_linear_float, 0},
    [QN_DTYPE_BF16] = {true, QN_GPU_linear_float, 0},
};

static bool accepts(const qn_node *n, qn_error *err)
{
    const qn_node *x = n->src[0], *w = n->src[1], *bias = n->n_src > 2 ? n->src[2] : NULL;
    if (!products[w->dtype].there) {
        QN_FAIL(err, unsupported, "linear: no kernel for weights in %s", qn_dtype_get(w->dtype)->name);
        return false;
    }
    return qn__gpu_want_dtype(n, "x", x, QN_DTYPE_F32, err) && qn__gpu_want_rows(n, "x", x, err) &&
           qn__gpu_want_rows(n, "the weight", w, err) &&
           (!bias || (qn__gpu_want_dtype(n, "the bias", bias, QN_DTYPE_F32, err) &&
                      qn__gpu_want_dense(n, "the bias", bias, err)));
}

static uint64_t column_bytes(const product *p, int64_t k)
{
    return p->block == 0 ? 0 : (uint64_t)(k / p->block) * (p->block == 32 ? 40 : 296);
}

static uint64_t scratch(const qn_node *n)
{
    const product p = products[n->src[1]->dtype];
    qn_gpu_rows x;
    if (!qn__gpu_rows_of(&n->src[0]->layout, &x)) return 0;
    return (uint64_t)x.n * column_bytes(&p, x.size);
}

static void launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *w = n->src[1], *bias = n->n_src > 2 ? n->src[2] : n;
    const product p = products[w->dtype];
    qn_gpu_rows x, w_rows;
    if (!qn__gpu_rows_of(&n->src[0]->layout, &x) || !qn__gpu_rows_of(&w->layout, &w_rows)) return;
    qn_linear_sizes s = {.k = x.size, .m = w_rows.n, .n_columns = x.n, .x_stride = x.stride, .has_bias = n->n_src > 2};
    const qn_dtype_info *d = qn_dtype_get(w->dtype);
    s.w_bytes = (w_rows.n > 1 ? w_rows.stride : w_rows.size) / d->block_elems * d->block_bytes;
    (void)qn__gpu_format(w->dtype, &s.format);
    if (p.block) {
        const qn_gpu_kernel kernel = p.block == 32 ? QN_GPU_quantize_32 : QN_GPU_quantize_256;
        const qn_quantize_sizes q = {.k = x.size, .n_columns = x.n, .x_stride = x.stride};
        QN_GPU_LAUNCH(b, kernel, qn__gpu_groups(kernel, x.n * (x.size / p.block)), q, QN_GPU_SCRATCH(0),
                      QN_GPU_OF(n->src[0]));
        QN_GPU_LAUNCH(b, p.kernel, qn__gpu_groups(p.kernel, s.m) * x.n, s, QN_GPU_OF(n), QN_GPU_SCRATCH(0),
                      QN_GPU_OF(w), QN_GPU_OF(bias));
    } else {
        QN_GPU_LAUNCH(b, p.kernel, qn__gpu_groups(p.kernel, s.m) * x.n, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]),
                      QN_GPU_OF(w), QN_GPU_OF(bias));
    }
}

const qn_gpu_op qn__gpu_op_linear = {accepts, scratch, launch};
