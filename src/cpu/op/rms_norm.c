/* SPDX-License-Identifier: MIT */
/* src/cpu/op/rms_norm.c -- y = x / sqrt(mean(x*x) + eps) (* w).
 * One pass sums squares, one scales: a row (8-32 KiB) is still in L1/L2 the second time. */
#include "cpu/op/ops.h"
#include "cpu/row.h"

#include <math.h>

static bool accepts(const qn_ukr *ukr, const qn_node *node, qn_error *err)
{
    (void)ukr;
    const qn_node *x = node->src[0], *w = node->n_src > 1 ? node->src[1] : NULL;
    if (!qn__want_dtype(node, "x", x, QN_DTYPE_F32, err) || !qn__want_dense_rows(node, "x", x, err)) return false;
    return !w || (qn__want_dtype(node, "the weight", w, QN_DTYPE_F32, err) && qn__want_dense_rows(node, "the weight", w, err));
}

static int64_t items(const qn_ukr *ukr, const qn_node *node, int phase, int64_t *chunk)
{
    (void)ukr;
    (void)phase;
    *chunk = qn__chunk_of(4096, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

static void run(const qn_task *t)
{
    const qn_norm_attrs *attrs = t->attrs;
    const float *w = t->n_src > 1 ? (const float *)(const void *)t->src[1].data : NULL; /* [n] */
    const int64_t n = qn__row_size(&t->dst.layout);
    if (n == 0) return;

    for (int64_t r = t->begin; r < t->end; r++) { /* rows this worker owns */
        const float *x = qn__row_f32(&t->src[0], r);
        const float mean_sq = t->ukr->sum_sq_f32(x, n) / (float)n;
        t->ukr->mul_scale_f32(qn__row_f32(&t->dst, r), x, w, 1.0f / sqrtf(mean_sq + attrs->eps), n);
    }
}

const qn_cpu_op qn__cpu_op_rms_norm = {QN_OP_rms_norm, accepts, NULL, 1, items, run};
