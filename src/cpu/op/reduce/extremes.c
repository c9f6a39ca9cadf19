/* SPDX-License-Identifier: MIT */
/* src/cpu/op/reduce/extremes.c -- amax, amin, argmax, argmin, any, all and logsumexp. The first NaN wins, then the
 * first of equals. */
#include "cpu/op/ops.h"
#include "cpu/op/reduce/reduce.h"

#include <math.h>

#define BLOCK(fn, T, ...) \
    static void fn(const qn_task *t, const void *x_, int64_t n, int64_t first, qn_red_state *s) \
    { \
        const T *x = x_; \
        (void)t, (void)first; \
        __VA_ARGS__ \
    }

/* ---- extremes and their indices: a or i the value, n its index -------------------------------- */

#define REALS(name, T, beats) \
    BLOCK( \
        name, T, T best = x[0]; int64_t at = 0; \
        for (int64_t i = 1; i < n && best == best; i++) if (x[i] beats best || x[i] != x[i]) { \
            best = x[i]; \
            at = i; \
        } s->a = (double)best; \
        s->n = first + at;)
#define WHOLES(name, beats) \
    BLOCK(name, int64_t, int64_t at = 0; for (int64_t i = 1; i < n; i++) at = x[i] beats x[at] ? i : at; s->i = x[at]; \
          s->n = first + at;)
/* clang-format off */
REALS(max_f64, double, >)
REALS(min_f64, double, <)
WHOLES(max_i64, >)
WHOLES(min_i64, <)
/* clang-format on */

/* The value with a fast kernel; then the first element that equals it. */
static int64_t place_of(const float *x, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] == value || (value != value && x[i] != x[i])) return i;
    return n - 1;
}
BLOCK(max_f32, float, s->a = (double)t->kernels->highest_f32(x, n);)
BLOCK(min_f32, float, s->a = (double)t->kernels->lowest_f32(x, n);)
BLOCK(argmax_f32, float, const float v = t->kernels->highest_f32(x, n); s->a = (double)v;
      s->n = first + place_of(x, n, v);)
BLOCK(argmin_f32, float, const float v = t->kernels->lowest_f32(x, n); s->a = (double)v;
      s->n = first + place_of(x, n, v);)

/* Integers leave a at 0, reals i: only one of the two ever differs. */
static void merge_max(const qn_task *t, qn_red_state *s, const qn_red_state *next)
{
    (void)t;
    if (!isnan(s->a) && (next->a > s->a || isnan(next->a) || next->i > s->i)) *s = *next;
}

static void merge_min(const qn_task *t, qn_red_state *s, const qn_red_state *next)
{
    (void)t;
    if (!isnan(s->a) && (next->a < s->a || isnan(next->a) || next->i < s->i)) *s = *next;
}

static void finish_value(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    (void)t, (void)n;
    *real = s->a;
    *whole = s->i;
}

static void finish_place(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    (void)t, (void)n, (void)real;
    *whole = s->n;
}

/* Row by row: the order of comparisons does not matter. */
static void max_columns(const qn_task *t, const float *const *rows, int64_t n_rows, int64_t n, float *work,
                        qn_red_state *s)
{
    for (int64_t c = 0; c < n; c++) work[c] = rows[0][c];
    for (int64_t i = 1; i < n_rows; i++) t->kernels->maximum_f32(work, work, rows[i], n);
    for (int64_t c = 0; c < n; c++) s[c].a = (double)(work[c] + 0.0f); /* zeros are as highest_f32 returns them */
}

static void min_columns(const qn_task *t, const float *const *rows, int64_t n_rows, int64_t n, float *work,
                        qn_red_state *s)
{
    for (int64_t c = 0; c < n; c++) work[c] = rows[0][c];
    for (int64_t i = 1; i < n_rows; i++) t->kernels->minimum_f32(work, work, rows[i], n);
    for (int64_t c = 0; c < n; c++) s[c].a = (double)(work[c] + 0.0f);
}

static const qn_red red_amax = {{max_f32, max_f64, max_i64}, merge_max, finish_value, max_columns};
QN_RED_DRIVER(amax, red_amax)
static const qn_red red_amin = {{min_f32, min_f64, min_i64}, merge_min, finish_value, min_columns};
QN_RED_DRIVER(amin, red_amin)
static const qn_red red_argmax = {{argmax_f32, max_f64, max_i64}, merge_max, finish_place, NULL};
QN_RED_DRIVER(argmax, red_argmax)
static const qn_red red_argmin = {{argmin_f32, min_f64, min_i64}, merge_min, finish_place, NULL};
QN_RED_DRIVER(argmin, red_argmin)

/* ---- any and all: how many are not 0, or are ------------------------------------------------- */

#define COUNTS(T, kind) \
    BLOCK(any_##kind, T, for (int64_t i = 0; i < n; i++) s->i += x[i] != 0;) \
    BLOCK(all_##kind, T, for (int64_t i = 0; i < n; i++) s->i += x[i] == 0;)
/* clang-format off */
COUNTS(float, f32)
COUNTS(double, f64)
COUNTS(int64_t, i64)
/* clang-format on */

static void merge_counts(const qn_task *t, qn_red_state *s, const qn_red_state *next)
{
    (void)t;
    s->i += next->i;
}

static void finish_any(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    (void)t, (void)n, (void)real;
    *whole = s->i > 0;
}

static void finish_all(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    (void)t, (void)n, (void)real;
    *whole = s->i == 0;
}

static const qn_red red_any = {{any_f32, any_f64, any_i64}, merge_counts, finish_any, NULL};
QN_RED_DRIVER(any, red_any)
static const qn_red red_all = {{all_f32, all_f64, all_i64}, merge_counts, finish_all, NULL};
QN_RED_DRIVER(all, red_all)

/* ---- logsumexp: a the highest, b the sum of exp(x - a); where the highest is infinite, b is 1 and a says all --- */

BLOCK(lse_f32, float, float e[QN_RED_BLOCK]; const float max = t->kernels->highest_f32(x, n); s->a = (double)max;
      s->b = isfinite(max) ? (double)t->kernels->exp_sum_f32(e, x, max, n) : 1;)

static void lse_f64(const qn_task *t, const void *x_, int64_t n, int64_t first, qn_red_state *s)
{
    const double *x = x_;
    max_f64(t, x, n, first, s);
    s->b = isfinite(s->a) ? 0 : 1;
    for (int64_t i = 0; i < n && isfinite(s->a); i++) s->b += exp(x[i] - s->a);
}

static void merge_lse(const qn_task *t, qn_red_state *s, const qn_red_state *next)
{
    const qn_red_state low = next->a > s->a || isnan(next->a) ? *s : *next,
                       high = next->a > s->a || isnan(next->a) ? *next : *s;
    (void)t;
    *s = high;
    if (isfinite(high.a) && low.a > -INFINITY) s->b += low.b * exp(low.a - high.a);
}

static void finish_lse(const qn_task *t, const qn_red_state *s, int64_t n, double *real, int64_t *whole)
{
    (void)t, (void)whole;
    *real = n == 0 ? -INFINITY : isfinite(s->a) ? s->a + log(s->b) : s->a;
}

static const qn_red red_logsumexp = {{lse_f32, lse_f64, NULL}, merge_lse, finish_lse, NULL};
QN_RED_DRIVER(logsumexp, red_logsumexp)
