/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/layer_norm.c -- y = (x - mean(x)) / sqrt(var(x) + eps) (* w) (+ b), row by row. */
#include "cpu/op/layers/norm.h"
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    static const char *const names[] = {"x", "the weight", "the bias"};
    (void)kernels;
    for (int i = 0; i < node->n_src; i++)
        if (!qn__want_dense_rows(node, names[i], node->src[i], err)) return false;
    return true;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(4096, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

static void row_f64(const qn_task *t, int64_t row, int64_t n, double eps)
{
    const double *x = (const double *)(const void *)qn__row_at(&t->src[0], row);
    const double *w = t->n_src > 1 ? (const double *)(const void *)t->src[1].data : NULL;
    const double *b = t->n_src > 2 ? (const double *)(const void *)t->src[2].data : NULL;
    double *y = (double *)(void *)qn__row_at(&t->dst, row);
    const norm_f64 of = norm_of_f64(x, n, eps, true);
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - of.mean) * of.scale * (w ? w[i] : 1) + (b ? b[i] : 0);
}

static void run(const qn_task *t)
{
    const double eps = ((const qn_layer_norm_attrs *)t->attrs)->eps;
    const int64_t n = qn__row_size(&t->dst.layout);
    const float *w = t->n_src > 1 ? (const float *)(const void *)t->src[1].data : NULL; /* [n] */
    const float *b = t->n_src > 2 ? (const float *)(const void *)t->src[2].data : NULL; /* [n] */
    if (n == 0) return;

    for (int64_t r = t->begin; r < t->end; r++) { /* rows this worker owns */
        if (t->dst.dtype == QN_DTYPE_F64) {
            row_f64(t, r, n, eps);
            continue;
        }
        const float *x = qn__row_f32(&t->src[0], r);
        const norm_f32 of = norm_of_f32(t->kernels, x, n, eps, true);
        t->kernels->normalize_f32(qn__row_f32(&t->dst, r), x, of.mean, of.scale, w, b, n);
    }
}

const qn_cpu_op qn__cpu_op_layer_norm = {QN_OP_layer_norm, accepts, NULL, 1, items, run};
