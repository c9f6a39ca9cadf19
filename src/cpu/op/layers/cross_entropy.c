/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/cross_entropy.c -- losses of rows of logits and their gradient; the forward run stores no matrix
 * of probabilities.
 *
 * A row's target is q[c] = (1 - smoothing) w[id] [c = id] + smoothing / m * w[c], its loss -sum of q[c] (x[c] -
 * lse), and the gradient (sum of q) exp(x[c] - lse) - q[c]. The forward run stores every row's lse behind the
 * losses. Both read the logits in tiles that fit L1. Sums over a row add tiles in double, in order. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

#include <math.h>

enum { TILE = 4096 };
_Static_assert(TILE * 4 <= QN_MM_TILE_BYTES, "exponentials of a tile");

#define ATTRS(of) ((const qn_cross_entropy_attrs *)(of)->attrs)

/* Loss and weight of a row, where the rows' losses are reduced. */
typedef struct row_loss {
    double loss, weight;
} row_loss;

static bool want_rows(const qn_node *node, int weight, qn_error *err)
{
    return qn__want_dense_rows(node, "the logits", node->src[0], err) &&
           (node->n_src <= weight || qn__want_dense_rows(node, "the weight", node->src[weight], err));
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return want_rows(node, 2, err);
}

static bool accepts_back(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    return want_rows(node, 4, err) && qn__want_dense_rows(node, "y", node->src[2], err);
}

static int64_t n_rows(const qn_node *node) { return node->src[0]->layout.dim[0]; }
static int64_t n_classes(const qn_task *t) { return t->src[0].layout.dim[1]; }
static bool reduces(const void *attrs) { return ((const qn_cross_entropy_attrs *)attrs)->reduction != QN_LOSSES_none; }

static double value_at(const qn_view *v, int64_t at)
{
    return v->dtype == QN_DTYPE_F64 ? ((const double *)(const void *)v->data)[at]
                                    : (double)((const float *)(const void *)v->data)[at];
}

static void put(const qn_view *v, int64_t at, double x)
{
    if (v->dtype == QN_DTYPE_F64)
        ((double *)(void *)v->data)[at] = x;
    else
        ((float *)(void *)v->data)[at] = (float)x;
}

static int64_t id_of(const qn_task *t, int64_t row)
{
    return qn__index_at(&t->src[1], row * qn__row_step(&t->src[1].layout));
}
static double weight_of(const qn_view *w, int64_t id) { return w ? value_at(w, id) : 1; }

/* ---- sums over a row ------------------------------------------------------------------------- */

static double lse_f32(const qn_task *t, const float *x, int64_t n)
{
    double high = -INFINITY, sum = 0;
    for (int64_t at = 0; at < n; at += TILE) {
        const int64_t m = n - at < TILE ? n - at : TILE;
        const float max = t->kernels->highest_f32(x + at, m);
        if (!isfinite(max) && max != -INFINITY) return (double)(max - max); /* NaN, as of log_softmax */
        if (max == -INFINITY) continue;
        const double part = (double)t->kernels->exp_sum_f32(t->tile, x + at, max, m), top = fmax(high, (double)max);
        sum = sum * exp(high - top) + part * exp((double)max - top);
        high = top;
    }
    return high == -INFINITY ? high : high + log(sum);
}

static double lse_f64(const double *x, int64_t n)
{
    double high = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) return x[i];
        high = fmax(high, x[i]);
    }
    if (!isfinite(high)) return high > 0 ? high - high : high;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - high);
    return high + log(sum);
}

static double lse_of(const qn_task *t, int64_t row, int64_t n)
{
    const void *x = qn__row_at(&t->src[0], row);
    return t->src[0].dtype == QN_DTYPE_F64 ? lse_f64(x, n) : lse_f32(t, x, n);
}

/* The sums of w and of w (x - lse); w NULL: ones. */
static void smooth_sums(const qn_task *t, const qn_view *w, int64_t row, double lse, int64_t n, double *weights,
                        double *logs)
{
    const qn_view x = {.data = qn__row_at(&t->src[0], row), .dtype = t->src[0].dtype};
    *weights = *logs = 0;
    for (int64_t i = 0; i < n; i++) {
        const double weight = weight_of(w, i);
        *weights += weight;
        *logs += weight * (value_at(&x, i) - lse);
    }
}

/* ---- forward: [loss(es), lse of rows] -------------------------------------------------------- */

static row_loss loss_of(const qn_task *t, int64_t row, double lse)
{
    const qn_cross_entropy_attrs *a = t->attrs;
    const int64_t n = n_classes(t), id = id_of(t, row);
    const qn_view *w = t->n_src > 2 ? &t->src[2] : NULL;
    if (id == a->ignore) return (row_loss){0, 0};
    if (id < 0 || id >= n) {
        if (a->strict) qn__bad_index(t, a->strict, 1, id, n);
        return (row_loss){NAN, NAN};
    }
    const qn_view x = {.data = qn__row_at(&t->src[0], row), .dtype = t->src[0].dtype};
    const double weight = weight_of(w, id);
    row_loss y = {(a->smoothing - 1) * weight * (value_at(&x, id) - lse), weight};
    if (a->smoothing == 0) return y;
    double weights, logs;
    smooth_sums(t, w, row, lse, n, &weights, &logs);
    y.loss -= a->smoothing / (double)n * logs;
    return y;
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    *chunk = qn__chunk_of(4096, node->src[0]->layout.dim[1]);
    return phase == 0 ? n_rows(node) : reduces(node->attrs);
}

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    return reduces(node->attrs) ? (uint64_t)n_rows(node) * sizeof(row_loss) : 0;
}

static void run(const qn_task *t)
{
    const int64_t rows = n_rows(t->node), losses = reduces(t->attrs) ? 1 : rows;
    row_loss *of_rows = (row_loss *)(void *)t->scratch, all = {0, 0};
    if (t->phase == 1) {
        for (int64_t r = 0; r < rows; r++) {
            all.loss += of_rows[r].loss;
            all.weight += of_rows[r].weight;
        }
        put(&t->dst, 0, ATTRS(t)->reduction == QN_LOSSES_mean ? all.loss / all.weight : all.loss);
        return;
    }
    for (int64_t r = t->begin; r < t->end; r++) {
        const double lse = lse_of(t, r, n_classes(t));
        const row_loss y = loss_of(t, r, lse);
        put(&t->dst, losses + r, lse);
        if (of_rows)
            of_rows[r] = y;
        else
            put(&t->dst, r, y.loss);
    }
}

const qn_cpu_op qn__cpu_op_cross_entropy = {QN_OP_cross_entropy, accepts, scratch, 2, items, run};

/* ---- back: sources logits, ids, y, dy, weight; may be written over the logits ---------------- */

static int64_t items_back(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    *chunk = phase == 0 ? 1 : qn__chunk_of(4096, node->src[0]->layout.dim[1]);
    return phase == 0 ? ATTRS(node)->reduction == QN_LOSSES_mean : n_rows(node);
}

static uint64_t scratch_back(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    return ATTRS(node)->reduction == QN_LOSSES_mean ? sizeof(double) : 0;
}

/* What the mean divides by. */
static double total_weight(const qn_task *t, const qn_view *w)
{
    double sum = 0;
    for (int64_t r = 0; r < n_rows(t->node); r++) {
        const int64_t id = id_of(t, r);
        if (id != ATTRS(t)->ignore) sum += id >= 0 && id < n_classes(t) ? weight_of(w, id) : (double)NAN;
    }
    return sum;
}

/* A row of the gradient: scale * exp(x - lse) - even * w, then `own` is taken off at id. */
typedef struct row_slope {
    double lse, scale, even;
} row_slope;

static void slope_f32(const qn_task *t, float *y, const float *x, const float *w, int64_t n, const row_slope *s)
{
    for (int64_t at = 0; at < n; at += TILE) {
        const int64_t m = n - at < TILE ? n - at : TILE;
        (void)t->kernels->exp_sum_f32(y + at, x + at, (float)s->lse, m);
        t->kernels->scale_f32(y + at, y + at, (float)s->scale, s->even != 0 && !w ? -(float)s->even : 0, m);
        if (s->even != 0 && w) t->kernels->axpy_f32(y + at, -(float)s->even, w + at, m);
    }
}

static void slope_f64(double *y, const double *x, const double *w, int64_t n, const row_slope *s)
{
    for (int64_t i = 0; i < n; i++) y[i] = s->scale * exp(x[i] - s->lse) - s->even * (w ? w[i] : 1);
}

static void run_back(const qn_task *t)
{
    const qn_cross_entropy_attrs *a = t->attrs;
    const int64_t rows = n_rows(t->node), n = n_classes(t), losses = reduces(a) ? 1 : rows,
                  dy_step = qn__row_step(&t->src[3].layout);
    const qn_view *w = t->n_src > 4 ? &t->src[4] : NULL;
    double *total = (double *)(void *)t->scratch, all_weights = (double)n;
    if (t->phase == 0) {
        *total = total_weight(t, w);
        return;
    }
    if (w && a->smoothing != 0) {
        all_weights = 0;
        for (int64_t i = 0; i < n; i++) all_weights += weight_of(w, i);
    }
    for (int64_t r = t->begin; r < t->end; r++) {
        const int64_t id = id_of(t, r);
        const bool bad = id != a->ignore && (id < 0 || id >= n), counts = id != a->ignore && !bad;
        const double weight = counts ? weight_of(w, id)
                              : bad  ? (double)NAN
                                     : 0,
                     even = counts ? a->smoothing / (double)n : 0;
        const double dy = value_at(&t->src[3], reduces(a) ? 0 : r * dy_step) / (total ? *total : 1);
        const double own = counts || bad ? dy * (1 - a->smoothing) * weight : 0,
                     to_lse = value_at(&t->src[3], (losses + r) * dy_step);
        const row_slope s = {value_at(&t->src[2], losses + r), own + to_lse + (counts ? dy * even * all_weights : 0),
                             counts ? dy * even : 0};
        const qn_view y = {.data = qn__row_at(&t->dst, r), .dtype = t->dst.dtype};
        const void *x = qn__row_at(&t->src[0], r), *wd = w ? w->data : NULL;
        /* ignored, whatever its logits */
        if (s.scale == 0 && s.even == 0)
            memset(y.data, 0, (size_t)(n * qn__elem_bytes(y.dtype)));
        else if (y.dtype == QN_DTYPE_F64)
            slope_f64((double *)(void *)y.data, x, wd, n, &s);
        else
            slope_f32(t, (float *)(void *)y.data, x, wd, n, &s);
        if (counts) put(&y, id, value_at(&y, id) - own);
    }
}

const qn_cpu_op qn__cpu_op_cross_entropy_back = {
    QN_OP_cross_entropy_back, accepts_back, scratch_back, 2, items_back, run_back};
