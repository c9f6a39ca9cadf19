/* SPDX-License-Identifier: MIT */
/* src/array/ops/losses.c -- losses on handles. Cross entropy is an operation of its own; the others are made of those
 * of quern/ops.h. Each opens a scope, so that nothing but its result stays. */
#include "array/ops/apply.h"
#include "array/ops/functional.h"
#include <quern/autograd.h>

#include <math.h>

/* Runs `make` in a scope of x's context. */
#define IN_SCOPE(x, make) \
    do { \
        if (!LIVE(x) || qn_scope_begin(of(x)->ctx) != QN_OK) return NULL; \
        qn_context *ctx_ = of(x)->ctx; \
        return qn_scope_end(ctx_, make); \
    } while (0)

static qn_tensor *reduced(const char *name, qn_tensor *losses, qn_reduction reduction)
{
    if (losses == NULL) return NULL;
    if (reduction == QN_REDUCTION_MEAN) return qn_mean(losses, QN_ALL, false);
    if (reduction == QN_REDUCTION_SUM) return qn_sum(losses, QN_ALL, false);
    if (reduction == QN_REDUCTION_NONE) return losses;
    (void)QN_FAIL(qn__err(of(losses)->ctx), invalid, "%s: reduction %d, mean, sum or none expected", name,
                  (int)reduction);
    return NULL;
}

static bool is_half(qn_dtype d) { return d == QN_DTYPE_F16 || d == QN_DTYPE_BF16; }

/* F16 and BF16 among the sources (NULL: none) become F32, or F64 beside that, in which all of a loss is computed.
 * *given: what it is rounded to at its end. */
static bool widen(const char *name, qn_tensor **src, int n, qn_dtype *given)
{
    qn_tensor *there[4];
    int n_there = 0;
    for (int i = 0; i < n; i++) {
        if (src[i] != NULL) there[n_there++] = src[i];
    }
    if (qn__same_context(name, there, n_there) == NULL || !qn__result_type(name, there, n_there, given)) return false;
    const qn_dtype wide = *given == QN_DTYPE_F64 ? QN_DTYPE_F64 : QN_DTYPE_F32;
    for (int i = 0; i < n; i++) {
        if (src[i] == NULL || !is_half(of(src[i])->storage->dtype)) continue;
        src[i] = qn__cast(src[i], wide);
        if (src[i] == NULL) return false;
    }
    return true;
}

static qn_tensor *rounded(qn_tensor *y, qn_dtype given) { return is_half(given) ? qn__given(y, given) : y; }

/* ---- targets that are classes ---- */

/* Logits as rows [n, classes], targets as [n]. */
typedef struct class_rows {
    qn_tensor *x, *ids;
    qn_shape shape; /* of the targets, and of losses that are not reduced */
} class_rows;

static bool known_reduction(const char *name, const qn_tensor *x, qn_reduction r)
{
    if ((unsigned)r <= QN_REDUCTION_NONE) return true;
    (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: reduction %d, mean, sum or none expected", name, (int)r);
    return false;
}

/* The class dimension moved to the end. */
static qn_tensor *classes_last(qn_tensor *x, int at)
{
    int dims[QN_MAX_RANK], n = 0;
    for (int i = 0; i < of(x)->layout.rank; i++) {
        if (i != at) dims[n++] = i;
    }
    dims[n++] = at;
    return qn_permute(x, dims, n);
}

static bool find_rows(const char *name, qn_tensor *x, qn_tensor *targets, class_rows *out)
{
    const int rank = of(x)->layout.rank, at = rank > 1 ? 1 : 0;
    if (!qn__is_real_tensor(name, "x", x)) return false;
    out->shape = (qn_shape){0};
    for (int i = 0; i < rank; i++) {
        if (i != at) out->shape.dim[out->shape.rank++] = of(x)->layout.dim[i];
    }
    const qn_shape have = qn_layout_shape(&of(targets)->layout);
    if (rank < 1 || !qn_shape_equal(&have, &out->shape)) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: targets %s for %s", name, QN_TEXT_OF(targets), QN_TEXT_OF(x));
        return false;
    }
    const int64_t n = qn_shape_numel(&have);
    out->x = qn_reshape(rank > 2 ? classes_last(x, at) : x, qn_shape_of(n, of(x)->layout.dim[at]));
    out->ids = qn_reshape(qn__number_beside(targets, x), qn_shape_of(n));
    return out->x != NULL && out->ids != NULL;
}

static int64_t ignored_id(const qn_cross_entropy_options *o)
{
    return o == NULL ? -100 : o->ignore_zero ? 0 : o->ignore_index == 0 ? -100 : o->ignore_index;
}

static qn_tensor *of_classes(qn_tensor *x, qn_tensor *targets, const qn_cross_entropy_options *o)
{
    const qn_dtype dtype = qn__fused_dtype(x);
    class_rows rows;
    if (!find_rows("cross_entropy", x, targets, &rows)) return NULL;
    const int64_t n = qn_shape_numel(&rows.shape);
    const qn_cross_entropy_attrs attrs = {
        .ignore = ignored_id(o),
        .smoothing = o != NULL ? o->label_smoothing : 0,
        .strict = QN_STRICT_cross_entropy,
        .reduction = o == NULL || o->reduction == QN_REDUCTION_MEAN ? QN_LOSSES_mean
                     : o->reduction == QN_REDUCTION_SUM             ? QN_LOSSES_sum
                                                                    : QN_LOSSES_none,
    };
    qn_tensor *weight = o != NULL && o->weight != NULL ? qn_detach(o->weight) : NULL;
    qn_tensor *y = qn__fused(QN_OP_cross_entropy, &attrs, (qn_tensor *[]){rows.x, rows.ids, weight},
                             weight != NULL ? 3 : 2, dtype);
    y = attrs.reduction == QN_LOSSES_none ? qn_view_as(qn_narrow(y, 0, 0, n), rows.shape) : qn_select(y, 0, 0);
    return qn__given(y, of(x)->storage->dtype);
}

/* Targets that are probabilities. */
static qn_tensor *of_probabilities(qn_tensor *x, qn_tensor *targets, const qn_cross_entropy_options *o)
{
    static const qn_cross_entropy_options none;
    if (o == NULL) o = &none;
    const int rank = of(x)->layout.rank, at = rank > 1 ? 1 : 0;
    const qn_shape a = qn_layout_shape(&of(x)->layout), b = qn_layout_shape(&of(targets)->layout);
    if (!qn__is_real_tensor("cross_entropy", "x", x)) return NULL;
    if (rank < 1 || !qn_shape_equal(&a, &b)) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "cross_entropy: targets %s for %s", QN_TEXT_OF(targets),
                      QN_TEXT_OF(x));
        return NULL;
    }
    const int64_t classes = a.dim[at];
    qn_tensor *src[] = {x, targets, o->weight != NULL ? qn_detach(o->weight) : NULL};
    qn_dtype dtype;
    if (!widen("cross_entropy", src, 3, &dtype)) return NULL;
    qn_tensor *logs = qn_log_softmax(src[0], at), *q = src[1];
    if (o->label_smoothing != 0)
        q = qn_add_number(qn_mul_number(q, 1 - o->label_smoothing), o->label_smoothing / (double)classes);
    if (o->weight != NULL) {
        qn_shape shape = {.rank = rank - at, .dim = {classes}};
        for (int i = 1; i < shape.rank; i++) shape.dim[i] = 1;
        logs = qn_mul(logs, qn_reshape(src[2], shape));
    }
    qn_tensor *losses = qn_neg(qn_sum(qn_mul(logs, q), QN_DIMS(at), false));
    return rounded(reduced("cross_entropy", losses, o->reduction), dtype);
}

static bool options_fit(const char *name, qn_tensor *x, const qn_cross_entropy_options *o)
{
    if (o == NULL) return true;
    if (!(o->label_smoothing >= 0) || !(o->label_smoothing <= 1)) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: label_smoothing %g, 0 to 1 expected", name,
                      o->label_smoothing);
        return false;
    }
    if (!known_reduction(name, x, o->reduction)) return false;
    if (o->weight == NULL) return true;
    if (qn__same_context(name, (qn_tensor *[]){x, o->weight}, 2) == NULL ||
        !qn__is_real_tensor(name, "weight", o->weight))
        return false;
    const int64_t classes = of(x)->layout.rank < 1 ? -1 : of(x)->layout.dim[of(x)->layout.rank > 1 ? 1 : 0];
    if (of(o->weight)->layout.rank == 1 && of(o->weight)->layout.dim[0] == classes) return true;
    (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: weight %s for %s, one a class expected", name,
                  QN_TEXT_OF(o->weight), QN_TEXT_OF(x));
    return false;
}

qn_tensor *qn_cross_entropy(qn_tensor *logits, qn_tensor *targets, const qn_cross_entropy_options *options)
{
    if (qn__same_context("cross_entropy", (qn_tensor *[]){logits, targets}, 2) == NULL) return NULL;
    if (!options_fit("cross_entropy", logits, options)) return NULL;
    IN_SCOPE(logits, qn__is_real(of(targets)->storage->dtype) ? of_probabilities(logits, targets, options)
                                                              : of_classes(logits, targets, options));
}

static qn_tensor *nll(qn_tensor *x, qn_tensor *targets, const qn_cross_entropy_options *o)
{
    class_rows rows;
    if (!find_rows("nll_loss", x, targets, &rows)) return NULL;
    const int64_t n = qn_shape_numel(&rows.shape);
    const qn_dtype given = of(x)->storage->dtype, dtype = qn__fused_dtype(x);
    const qn_reduction reduction = o != NULL ? o->reduction : QN_REDUCTION_MEAN;
    qn_tensor *ignored = qn_eq_number(rows.ids, (double)ignored_id(o)), *ids = qn_masked_fill(rows.ids, ignored, 0);
    qn_tensor *picked = qn__cast(qn_reshape(qn_gather(rows.x, 1, qn_unsqueeze(ids, 1)), qn_shape_of(n)), dtype);
    qn_tensor *counts = qn_to(qn_logical_not(ignored), dtype);
    if (o != NULL && o->weight != NULL) {
        qn_tensor *weight = qn_index_select(qn_to(qn_detach(o->weight), dtype), 0, ids);
        counts = qn_mul(counts, weight);
        picked = qn_mul(picked, weight);
    }
    qn_tensor *losses = qn_neg(qn_masked_fill(picked, ignored, 0));
    if (reduction == QN_REDUCTION_NONE) return qn__given(qn_view_as(losses, rows.shape), given);
    qn_tensor *sum = qn_sum(losses, QN_ALL, false);
    return qn__given(reduction == QN_REDUCTION_SUM ? sum : qn_div(sum, qn_sum(counts, QN_ALL, false)), given);
}

qn_tensor *qn_nll_loss(qn_tensor *log_probs, qn_tensor *targets, const qn_cross_entropy_options *options)
{
    if (qn__same_context("nll_loss", (qn_tensor *[]){log_probs, targets}, 2) == NULL) return NULL;
    if (!options_fit("nll_loss", log_probs, options)) return NULL;
    if (options != NULL && options->label_smoothing != 0) {
        (void)QN_FAIL(qn__err(of(log_probs)->ctx), invalid, "nll_loss: label_smoothing is for cross_entropy only");
        return NULL;
    }
    IN_SCOPE(log_probs, nll(log_probs, targets, options));
}

/* ---- distances ---- */

static qn_tensor *distance(const char *name, qn_tensor *x, qn_tensor *y, qn_tensor *(*fn)(qn_tensor *d),
                           qn_reduction reduction)
{
    qn_tensor *src[] = {x, y};
    qn_dtype dtype;
    if (qn__same_context(name, src, 2) == NULL || !widen(name, src, 2, &dtype)) return NULL;
    return rounded(reduced(name, fn(qn_sub(src[0], src[1])), reduction), dtype);
}

qn_tensor *qn_mse_loss(qn_tensor *x, qn_tensor *y, qn_reduction reduction)
{
    IN_SCOPE(x, distance("mse_loss", x, y, qn_square, reduction));
}

qn_tensor *qn_l1_loss(qn_tensor *x, qn_tensor *y, qn_reduction reduction)
{
    IN_SCOPE(x, distance("l1_loss", x, y, qn_abs, reduction));
}

/* With m the lesser of d and delta: m (d - m / 2). The slope of m is 0 from delta on. */
static qn_tensor *huber(const char *name, qn_tensor *x, qn_tensor *y, double delta, double divisor,
                        qn_reduction reduction)
{
    qn_tensor *src[] = {x, y};
    qn_dtype dtype;
    if (qn__same_context(name, src, 2) == NULL || !widen(name, src, 2, &dtype)) return NULL;
    qn_tensor *d = qn_abs(qn_sub(src[0], src[1])), *m = qn_clamp(d, -INFINITY, delta);
    qn_tensor *loss = qn_mul(m, qn_sub(d, qn_mul_number(m, 0.5)));
    return rounded(reduced(name, divisor == 1 ? loss : qn_div_number(loss, divisor), reduction), dtype);
}

static bool check_bend(const char *name, const qn_tensor *x, double bend, bool or_zero)
{
    if (bend > 0 || (or_zero && bend == 0)) return true;
    (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: the bend is at %g, a positive number expected", name, bend);
    return false;
}

qn_tensor *qn_smooth_l1_loss(qn_tensor *x, qn_tensor *y, double beta, qn_reduction reduction)
{
    if (!LIVE(x) || !check_bend("smooth_l1_loss", x, beta, true)) return NULL;
    if (beta == 0) return qn_l1_loss(x, y, reduction);
    IN_SCOPE(x, huber("smooth_l1_loss", x, y, beta, beta, reduction));
}

qn_tensor *qn_huber_loss(qn_tensor *x, qn_tensor *y, double delta, qn_reduction reduction)
{
    if (!LIVE(x) || !check_bend("huber_loss", x, delta, false)) return NULL;
    IN_SCOPE(x, huber("huber_loss", x, y, delta, 1, reduction));
}

/* ---- yes or no ---- */

static bool same_shapes(const char *name, const qn_tensor *x, const qn_tensor *y)
{
    const qn_shape a = qn_layout_shape(&of(x)->layout), b = qn_layout_shape(&of(y)->layout);
    if (!qn__is_real_tensor(name, "x", x) || !qn__is_real_tensor(name, "y", y)) return false;
    if (qn_shape_equal(&a, &b)) return true;
    (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "%s: %s and %s, one shape expected", name, QN_TEXT_OF(x),
                  QN_TEXT_OF(y));
    return false;
}

static qn_tensor *one_less(qn_tensor *x) { return qn_neg(qn_sub_number(x, 1)); }

static qn_tensor *bce(qn_tensor *p, qn_tensor *y, qn_tensor *weight, qn_reduction reduction)
{
    const qn_strict_attrs attrs = {QN_STRICT_binary_cross_entropy};
    qn_tensor *src[] = {p, y, weight};
    qn_dtype dtype;
    if (!widen("binary_cross_entropy", src, 3, &dtype)) return NULL;
    qn_tensor *losses = qn__compute(QN_OP_binary_cross_entropy, QN_TYPES_real, &attrs, (qn_target){0}, src, 2);
    if (weight != NULL) losses = qn_mul(losses, src[2]);
    return rounded(reduced("binary_cross_entropy", losses, reduction), dtype);
}

qn_tensor *qn_binary_cross_entropy(qn_tensor *p, qn_tensor *y, qn_tensor *weight, qn_reduction reduction)
{
    if (qn__same_context("binary_cross_entropy", (qn_tensor *[]){p, y}, 2) == NULL) return NULL;
    if (!same_shapes("binary_cross_entropy", p, y)) return NULL;
    IN_SCOPE(p, bce(p, y, weight, reduction));
}

/* (1 - y) x + (1 + (pos_weight - 1) y) log(1 + e^-x) */
static qn_tensor *bce_with_logits(qn_tensor *x, qn_tensor *y, qn_tensor *weight, qn_tensor *pos_weight,
                                  qn_reduction reduction)
{
    qn_tensor *src[] = {x, y, weight, pos_weight};
    qn_dtype dtype;
    if (!widen("binary_cross_entropy_with_logits", src, 4, &dtype)) return NULL;
    x = src[0], y = src[1], weight = src[2], pos_weight = src[3];
    const double most = of(x)->storage->dtype == QN_DTYPE_F64 ? 700 : 80; /* whose exponential is finite */
    qn_tensor *bent = qn_softplus(qn_neg(x), 1, most);
    if (pos_weight != NULL) bent = qn_mul(bent, qn_add_number(qn_mul(qn_sub_number(pos_weight, 1), y), 1));
    qn_tensor *losses = qn_add(qn_mul(one_less(y), x), bent);
    if (weight != NULL) losses = qn_mul(losses, weight);
    return rounded(reduced("binary_cross_entropy_with_logits", losses, reduction), dtype);
}

qn_tensor *qn_binary_cross_entropy_with_logits(qn_tensor *x, qn_tensor *y, qn_tensor *weight, qn_tensor *pos_weight,
                                               qn_reduction reduction)
{
    if (qn__same_context("binary_cross_entropy_with_logits", (qn_tensor *[]){x, y}, 2) == NULL) return NULL;
    if (!same_shapes("binary_cross_entropy_with_logits", x, y)) return NULL;
    IN_SCOPE(x, bce_with_logits(x, y, weight, pos_weight, reduction));
}

/* ---- distributions ---- */

static qn_tensor *kl_div(qn_tensor *x, qn_tensor *y, bool log_target, qn_reduction reduction)
{
    qn_tensor *src[] = {x, y}, *losses;
    qn_dtype dtype;
    if (!widen("kl_div", src, 2, &dtype)) return NULL;
    x = src[0], y = src[1];
    if (log_target) {
        losses = qn_mul(qn_exp(y), qn_sub(y, x));
    } else {
        qn_tensor *logs = qn_log(qn_masked_fill(y, qn_eq_number(y, 0), 1)); /* 0 log 0 is 0 */
        losses = qn_mul(y, qn_sub(logs, x));
    }
    if (reduction != QN_REDUCTION_BATCHMEAN || losses == NULL)
        return rounded(reduced("kl_div", losses, reduction), dtype);
    const double batch = of(x)->layout.rank > 0 ? (double)of(x)->layout.dim[0] : 1;
    return rounded(qn_div_number(qn_sum(losses, QN_ALL, false), batch), dtype);
}

qn_tensor *qn_kl_div(qn_tensor *x, qn_tensor *y, bool log_target, qn_reduction reduction)
{
    if (qn__same_context("kl_div", (qn_tensor *[]){x, y}, 2) == NULL) return NULL;
    if (!qn__is_real_tensor("kl_div", "x", x) || !qn__is_real_tensor("kl_div", "y", y)) return NULL;
    IN_SCOPE(x, kl_div(x, y, log_target, reduction));
}
