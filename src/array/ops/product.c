/* SPDX-License-Identifier: MIT */
/* src/array/ops/product.c -- products of matrices on handles. */
#include "array/ops/apply.h"

#include <string.h>

static qn_tensor *refuse(const char *name, const qn_tensor *a, const qn_tensor *b, const char *what)
{
    (void)QN_FAIL(qn__err(of(a)->ctx), invalid, "%s: %s x %s: %s", name, QN_TEXT_OF(a), QN_TEXT_OF(b), what);
    return NULL;
}

/* Inner sizes are compared before views change what a message shows. */
static bool inner_fits(const char *name, const qn_tensor *a, const qn_tensor *b)
{
    const qn_layout *la = &of(a)->layout, *lb = &of(b)->layout;
    const int64_t k = la->dim[la->rank - 1], k2 = lb->dim[lb->rank > 1 ? lb->rank - 2 : 0];
    if (k == k2) return true;
    (void)QN_FAIL(qn__err(of(a)->ctx), invalid, "%s: %s x %s: inner sizes %lld and %lld differ", name, QN_TEXT_OF(a),
                  QN_TEXT_OF(b), (long long)k, (long long)k2);
    return false;
}

static qn_tensor *squeezed(qn_tensor *t, int dim)
{
    if (t == NULL) return NULL;
    qn_tensor *v = qn_squeeze(t, dim);
    qn_release(t);
    return v;
}

qn_tensor *qn_matmul(qn_tensor *a, qn_tensor *b)
{
    if (qn__same_context("matmul", (qn_tensor *[]){a, b}, 2) == NULL) return NULL;
    const int ra = of(a)->layout.rank, rb = of(b)->layout.rank;
    if (ra < 1 || rb < 1) return refuse("matmul", a, b, "at least 1 dimension expected");
    if (!inner_fits("matmul", a, b)) return NULL;
    qn_tensor *row = ra == 1 ? qn_unsqueeze(a, 0) : a, *column = rb == 1 ? qn_unsqueeze(b, 1) : b, *y = NULL;
    if (row != NULL && column != NULL)
        y = qn__plain(QN_OP_matmul, &(qn_matmul_attrs){.alpha = 1}, (qn_target){0}, (qn_tensor *[]){row, column}, 2);
    if (row != a) qn_release(row);
    if (column != b) qn_release(column);
    if (rb == 1) y = squeezed(y, -1);
    if (ra == 1) y = squeezed(y, rb == 1 ? -1 : -2);
    return y;
}

static qn_tensor *of_rank(const char *name, qn_tensor *a, qn_tensor *b, int rank)
{
    if (qn__same_context(name, (qn_tensor *[]){a, b}, 2) == NULL) return NULL;
    if (of(a)->layout.rank != rank || of(b)->layout.rank != rank)
        return refuse(name, a, b, rank == 2 ? "matrices expected" : "3 dimensions expected");
    if (rank == 3 && of(a)->layout.dim[0] != of(b)->layout.dim[0])
        return refuse(name, a, b, "batches of one size expected");
    if (!inner_fits(name, a, b)) return NULL;
    return qn__plain(QN_OP_matmul, &(qn_matmul_attrs){.alpha = 1}, (qn_target){0}, (qn_tensor *[]){a, b}, 2);
}

qn_tensor *qn_mm(qn_tensor *a, qn_tensor *b) { return of_rank("mm", a, b, 2); }
qn_tensor *qn_bmm(qn_tensor *a, qn_tensor *b) { return of_rank("bmm", a, b, 3); }

qn_tensor *qn_addmm(qn_tensor *c, qn_tensor *a, qn_tensor *b, double beta, double alpha)
{
    if (qn__same_context("addmm", (qn_tensor *[]){c, a, b}, 3) == NULL) return NULL;
    if (of(a)->layout.rank != 2 || of(b)->layout.rank != 2) return refuse("addmm", a, b, "matrices expected");
    if (!inner_fits("addmm", a, b)) return NULL;
    return qn__plain(QN_OP_matmul, &(qn_matmul_attrs){.alpha = alpha, .beta = beta}, (qn_target){0},
                     (qn_tensor *[]){a, b, c}, 3);
}

/* The kernels read weights and biases by rows, from the first on, whose elements are neighbours. */
static bool lies_in_rows(const qn_tensor *t)
{
    const qn_layout *l = &of(t)->layout;
    if (l->rank == 0 || qn_dtype_get(of(t)->storage->dtype)->class_ == QN_CLASS_block) return true;
    if (l->dim[l->rank - 1] > 1 && l->stride[l->rank - 1] != 1) return false;
    return l->rank == 1 || l->dim[0] <= 1 || l->stride[0] >= 0;
}

static qn_tensor *linear_by_rows(qn_tensor *const *given, int n)
{
    qn_tensor *src[3] = {given[0]}, *y = NULL;
    bool good = true;
    for (int i = 1; i < n; i++) {
        src[i] = lies_in_rows(given[i]) ? given[i] : qn_contiguous(given[i]);
        good = good && src[i] != NULL;
    }
    if (good) y = qn__plain(QN_OP_linear, NULL, (qn_target){0}, src, n);
    for (int i = 1; i < n; i++) {
        if (src[i] != given[i]) qn_release(src[i]);
    }
    return y;
}

/* The graph's `linear` computes in F32, from weights in any format; other types go by way of matmul. */
static qn_tensor *linear_as_matmul(qn_tensor *x, qn_tensor *w, qn_tensor *b)
{
    qn_tensor *transposed = qn_transpose(w, 0, 1), *y = NULL;
    if (b == NULL || of(x)->layout.rank == 0) { /* which is refused there */
        y = qn_matmul(x, transposed);
        qn_release(transposed);
        return y;
    }
    qn_tensor *bias = qn__cast(b, of(x)->storage->dtype), /* files of F16 keep biases in F32 */
        *rows = of(x)->layout.rank == 1 ? qn_unsqueeze(x, 0) : x;
    if (transposed != NULL && bias != NULL && rows != NULL)
        y = qn__plain(QN_OP_matmul, &(qn_matmul_attrs){.alpha = 1, .beta = 1}, (qn_target){0},
                      (qn_tensor *[]){rows, transposed, bias}, 3);
    if (rows != x) {
        qn_release(rows);
        y = squeezed(y, 0);
    }
    if (bias != b) qn_release(bias);
    qn_release(transposed);
    return y;
}

/* The bias stretches to the result, not the other way round. */
static bool bias_fits(const qn_tensor *x, const qn_tensor *w, const qn_tensor *b)
{
    const qn_shape bias = qn_layout_shape(&of(b)->layout);
    qn_shape y = qn_layout_shape(&of(x)->layout), both;
    if (y.rank == 0) return true; /* which is refused for that */
    if (y.rank == 1) y.rank = 2, y.dim[0] = 1;
    y.dim[y.rank - 1] = of(w)->layout.dim[0];
    if (qn_shape_broadcast(&bias, &y, &both, NULL) == QN_OK && qn_shape_equal(&both, &y)) return true;
    (void)QN_FAIL(qn__err(of(b)->ctx), invalid, "linear: bias is %s, [%lld] expected", QN_TEXT_OF(b),
                  (long long)of(w)->layout.dim[0]);
    return false;
}

qn_tensor *qn_linear(qn_tensor *x, qn_tensor *w, qn_tensor *b)
{
    qn_tensor *src[] = {x, w, b};
    const int n = b != NULL ? 3 : 2;
    if (qn__same_context("linear", src, n) == NULL) return NULL;
    if (of(x)->storage->dtype != QN_DTYPE_F32 && qn_dtype_get(of(w)->storage->dtype)->class_ == QN_CLASS_block) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "linear: x is %s; with a weight in %s F32 is expected (qn_to)",
                      qn_dtype_get(of(x)->storage->dtype)->name, qn_dtype_get(of(w)->storage->dtype)->name);
        return NULL;
    }
    if (of(x)->storage->dtype == QN_DTYPE_F32 || of(w)->layout.rank != 2) return linear_by_rows(src, n);
    if (of(x)->layout.rank > 0 && of(x)->layout.dim[of(x)->layout.rank - 1] != of(w)->layout.dim[1]) {
        (void)QN_FAIL(qn__err(of(x)->ctx), invalid, "linear: x %s with weight %s: inner sizes %lld and %lld differ",
                      QN_TEXT_OF(x), QN_TEXT_OF(w), (long long)of(x)->layout.dim[of(x)->layout.rank - 1],
                      (long long)of(w)->layout.dim[1]);
        return NULL;
    }
    return b == NULL || bias_fits(x, w, b) ? linear_as_matmul(x, w, b) : NULL;
}
