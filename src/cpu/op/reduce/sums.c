/* SPDX-License-Identifier: MIT */
/* src/cpu/op/reduce/sums.c -- sum, mean, prod, var, std, count_nonzero and norm. Floats are summed in 64 chains a
 * block (sum_f32 of kernels.def), blocks in double with compensated rounding errors (Neumaier 1974); variances of
 * blocks are joined by Chan, Golub and LeVeque's rule (1979). Sums of integers wrap. */
#include "cpu/op/ops.h"
#include "cpu/op/reduce/reduce.h"

#include <math.h>
#include <string.h>

#define ATTRS ((const qn_reduce_attrs *)t->attrs)
#define BLOCK(fn, T, ...) \
    static void fn(const qn_task *t, const void *x_, int64_t n, int64_t first, qn_red_state *s) \
    { \
        const T *x = x_; \
        (void)t, (void)first; \
        __VA_ARGS__ \
    }

/* 64 chains, as sum_f32 has them. */
static double sum_of(const double *x, int64_t n)
{
    double chain[64] = {0};
    for (int64_t i = 0; i < n; i++) chain[i % 64] += x[i];
    for (int half = 32; half > 0; half /= 2)
        for (int j = 0; j < half; j++) chain[j] += chain[j + half];
    return chain[0];
}

/* ---- sum and mean: a + b, b the rounding error; i for integers -------------------------------- */

BLOCK(sum_f32, float, s->a = t->kernels->sum_f32(x, n);)
BLOCK(sum_f64, double, s->a = sum_of(x, n);)
BLOCK(sum_i64, int64_t, uint64_t sum = 0; for (int64_t i = 0; i < n; i++) sum += (uint64_t)x[i]; s->i = (int64_t)sum;)

static void merge_sums(const qn_task *t, qn_red_state *s, const qn_red_state *next)
{
    const double sum = s->a + next->a;
    (void)t;
    s->b += fabs(s->a) >= fabs(next->a) ? (s->a - sum) + next->a : (next->a - sum) + s->a;
    s->a = sum;
    s->i = (int64_t)((uint64_t)s->i + (uint64_t)next->i);
}

static double sum_in(const qn_red_state *s) { return isfinite(s->a) && isfinite(s->b) ? s->a + s->b : s->a; }

static void finish_sum(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    (void)t, (void)n;
    *real = sum_in(s);
    *whole = s->i;
}

static void finish_mean(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    (void)t, (void)whole;
    *real = sum_in(s) / (double)n; /* of nothing: NaN */
}

/* The chains of sum_f32 for each column: row i goes to chain i mod 64. */
static void sum_columns(const qn_task *t, const float *const *rows, int64_t n_rows, int64_t n, float *work,
                        qn_red_state *s)
{
    const int64_t used = n_rows < 64 ? n_rows : 64;
    memset(work, 0, (size_t)(64 * n) * sizeof *work);
    for (int64_t i = 0; i < n_rows; i++) t->kernels->add_f32(work + i % 64 * n, work + i % 64 * n, rows[i], n);
    /* j + chain 32 + j; then those j and 16 + j; then the tree of kernel/lanes.h: a chain that took nothing is 0 and
     * changes no bit */
    for (int64_t half = 32; half > 0; half /= 2)
        for (int64_t j = 0; j < half && j + half < used; j++)
            t->kernels->add_f32(work + j * n, work + j * n, work + (j + half) * n, n);
    for (int64_t c = 0; c < n; c++) s[c].a = work[c];
}

static const qn_red red_sum = {{sum_f32, sum_f64, sum_i64}, merge_sums, finish_sum, sum_columns};
QN_RED_DRIVER(sum, red_sum)
static const qn_red red_mean = {{sum_f32, sum_f64, NULL}, merge_sums, finish_mean, sum_columns};
QN_RED_DRIVER(mean, red_mean)

BLOCK(count_f32, float, for (int64_t i = 0; i < n; i++) s->i += x[i] != 0;)
BLOCK(count_f64, double, for (int64_t i = 0; i < n; i++) s->i += x[i] != 0;)
BLOCK(count_i64, int64_t, for (int64_t i = 0; i < n; i++) s->i += x[i] != 0;)
static const qn_red red_count_nonzero = {{count_f32, count_f64, count_i64}, merge_sums, finish_sum, NULL};
QN_RED_DRIVER(count_nonzero, red_count_nonzero)

/* ---- products: a in double, i for integers --------------------------------------------------- */

BLOCK(prod_f32, float, s->a = 1; for (int64_t i = 0; i < n; i++) s->a *= (double)x[i];)
BLOCK(prod_f64, double, s->a = 1; for (int64_t i = 0; i < n; i++) s->a *= x[i];)
BLOCK(prod_i64, int64_t, uint64_t y = 1; for (int64_t i = 0; i < n; i++) y *= (uint64_t)x[i]; s->i = (int64_t)y;)

static void merge_products(const qn_task *t, qn_red_state *s, const qn_red_state *next)
{
    (void)t;
    s->a *= next->a;
    s->i = (int64_t)((uint64_t)s->i * (uint64_t)next->i);
}

static void finish_product(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    (void)t;
    *real = n > 0 ? s->a : 1;
    *whole = n > 0 ? s->i : 1;
}

static const qn_red red_prod = {{prod_f32, prod_f64, prod_i64}, merge_products, finish_product, NULL};
QN_RED_DRIVER(prod, red_prod)

/* ---- variances: a the mean, b the sum of squared deviations from it, n elements -------------- */

static void var_f32(const qn_task *t, const void *x_, int64_t n, int64_t first, qn_red_state *s)
{
    const float *x = x_;
    const double exact = (double)t->kernels->sum_f32(x, n) / (double)n;
    const float mean = (float)exact, squares = t->kernels->dev_sq_f32(x, mean, n);
    const double off = exact - (double)mean;
    (void)first;
    s->n = n;
    s->a = exact;
    s->b = (double)squares - (double)n * off * off;
    if (isfinite(squares) || !isfinite(mean)) return;
    s->b = 0; /* squares beyond the range of floats */
    for (int64_t i = 0; i < n; i++) s->b += ((double)x[i] - exact) * ((double)x[i] - exact);
}
BLOCK(var_f64, double, double square[QN_RED_BLOCK]; s->n = n; s->a = sum_of(x, n) / (double)n;
      for (int64_t i = 0; i < n; i++) square[i] = (x[i] - s->a) * (x[i] - s->a); s->b = sum_of(square, n);)

static void merge_variances(const qn_task *t, qn_red_state *s, const qn_red_state *next)
{
    const double all = (double)(s->n + next->n), d = next->a - s->a;
    (void)t;
    s->b += next->b + d * d * ((double)s->n * (double)next->n / all);
    s->a += d * ((double)next->n / all);
    s->n += next->n;
}

static void finish_var(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    const double freedom = (double)n - ATTRS->value;
    (void)whole;
    *real = n == 0 ? NAN : (s->b < 0 ? 0 : s->b) / (freedom > 0 ? freedom : 0);
}

static void finish_std(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    finish_var(t, s, n, real, whole);
    *real = sqrt(*real);
}

static const qn_red red_var = {{var_f32, var_f64, NULL}, merge_variances, finish_var, NULL};
QN_RED_DRIVER(var, red_var)
static const qn_red red_std = {{var_f32, var_f64, NULL}, merge_variances, finish_std, NULL};
QN_RED_DRIVER(std, red_std)

/* ---- norms: a, and b as for sums; p infinite: a the extreme ---------------------------------- */

static double to_power(double size, double p)
{
    return p == 2 ? size * size : p == 1 ? size : p == 0 ? size != 0 : pow(size, p);
}
static bool further(double size, double best, double p) { return p > 0 ? size > best : size < best; }

#define NORM(fn, T) \
    BLOCK( \
        fn, T, const double p = ATTRS->value; double chain[8] = {0}; if (isinf(p)) { \
            s->a = fabs((double)x[0]); \
            for (int64_t i = 1; i < n; i++) { \
                const double size = fabs((double)x[i]); \
                if (further(size, s->a, p) || isnan(size)) s->a = size; \
                if (isnan(s->a)) break; \
            } \
        } else { \
            for (int64_t i = 0; i < n; i++) chain[i % 8] += to_power(fabs((double)x[i]), p); \
            s->a = ((chain[0] + chain[4]) + (chain[2] + chain[6])) + ((chain[1] + chain[5]) + (chain[3] + chain[7])); \
        })
NORM(norm_f32, float)
NORM(norm_f64, double)

static void merge_norms(const qn_task *t, qn_red_state *s, const qn_red_state *next)
{
    if (!isinf(ATTRS->value))
        merge_sums(t, s, next);
    else if (!isnan(s->a) && (isnan(next->a) || further(next->a, s->a, ATTRS->value)))
        s->a = next->a;
}

static void finish_norm(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    const double p = ATTRS->value, sum = sum_in(s);
    (void)n, (void)whole;
    *real = isinf(p) || p == 0 || p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p);
}

static const qn_red red_norm = {{norm_f32, norm_f64, NULL}, merge_norms, finish_norm, NULL};
QN_RED_DRIVER(norm, red_norm)
