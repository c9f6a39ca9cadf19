/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/rms_norm.c -- y = x / sqrt(mean(x*x) + eps) (* w). One pass sums squares, one scales: a row
 * (8-32 KiB) is still in L1 or L2 the second time. */
#include "cpu/op/layers/norm.h"
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    const qn_node *x = node->src[0], *w = node->n_src > 1 ? node->src[1] : NULL;
    return qn__want_dense_rows(node, "x", x, err) && (!w || qn__want_dense_rows(node, "the weight", w, err));
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(4096, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

static void row_f64(const qn_task *t, int64_t row, int64_t n)
{
    const double *x = (const double *)(const void *)qn__row_at(&t->src[0], row);
    const double *w = t->n_src > 1 ? (const double *)(const void *)t->src[1].data : NULL;
    double *y = (double *)(void *)qn__row_at(&t->dst, row);
    const norm_f64 of = norm_of_f64(x, n, ((const qn_norm_attrs *)t->attrs)->eps, false);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * of.scale * (w ? w[i] : 1);
}

static void run(const qn_task *t)
{
    const float eps = (float)((const qn_norm_attrs *)t->attrs)->eps;
    const float *w = t->n_src > 1 ? (const float *)(const void *)t->src[1].data : NULL; /* [n] */
    const int64_t n = qn__row_size(&t->dst.layout);
    if (n == 0) return;

    for (int64_t r = t->begin; r < t->end; r++) { /* rows this worker owns */
        if (t->dst.dtype == QN_DTYPE_F64) {
            row_f64(t, r, n);
            continue;
        }
        const float *x = qn__row_f32(&t->src[0], r);
        t->kernels->mul_scale_f32(qn__row_f32(&t->dst, r), x, w,
                                  norm_of_f32(t->kernels, x, n, (double)eps, false).scale, n);
    }
}

const qn_cpu_op qn__cpu_op_rms_norm = {QN_OP_rms_norm, accepts, NULL, 1, items, run};
