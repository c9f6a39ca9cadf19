/* SPDX-License-Identifier: MIT */
/* src/cpu/op/pointwise/range.c -- what takes values of a range only: the check by itself, and cross entropy between
 * probabilities. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/pointwise.h"

#include <math.h>
#include <string.h>

/* NaN is not in it. */
#define ALL_WITHIN(T, x, n, least, most) \
    do { \
        bool good = true; \
        for (int64_t i = 0; i < n; i++) good &= (x)[i] >= (T)(least) && (x)[i] <= (T)(most); \
        if (good) return true; \
    } while (0)

static bool within_f32(const float *x, int64_t n, double min, double max)
{
    ALL_WITHIN(float, x, n, min, max);
    return false;
}

static bool within_f64(const double *x, int64_t n, double min, double max)
{
    ALL_WITHIN(double, x, n, min, max);
    return false;
}

/* ---- expect_range ---------------------------------------------------------------------------- */

#define EXPECT_RANGE(suffix, T) \
    static void expect_range_##suffix(const qn_task *t, void *y, const void *const *x, int64_t n) \
    { \
        const qn_range_attrs *a = t->attrs; \
        if (!within_##suffix(x[0], n, a->min, a->max)) qn__bad_value(t, a->strict, "a value is outside its range"); \
        if (y != x[0]) memcpy(y, x[0], (size_t)n * sizeof(T)); \
    }
EXPECT_RANGE(f32, float)
EXPECT_RANGE(f64, double)
static const qn_pw pw_expect_range = {.fn = {expect_range_f32, expect_range_f64, NULL}};
QN_PW_DRIVER(expect_range, pw_expect_range)

/* ---- binary_cross_entropy: of probabilities a and b ------------------------------------------ */

enum { PART = 256 };

static void check(const qn_task *t, bool good_a, bool good_b)
{
    const int32_t strict = ((const qn_strict_attrs *)t->attrs)->strict;
    if (strict == QN_STRICT_not || (good_a && good_b)) return;
    qn__bad_value(t, strict, good_a ? "a target is outside 0 to 1" : "a probability is outside 0 to 1");
}

/* log p, -100 where p is smaller than e^-100. */
static void logs_f32(const qn_task *t, float *y, const float *p, int n)
{
    const float low = (float)exp(-100);
    t->kernels->log_f32(y, p, n);
    for (int i = 0; i < n; i++) y[i] = p[i] < low ? -100 : y[i];
}

static void logs_f64(double *y, const double *p, int n)
{
    for (int i = 0; i < n; i++) y[i] = p[i] < exp(-100) ? -100 : log(p[i]);
}

#define LOGS_f32(y, p, n) logs_f32(t, y, p, n)
#define LOGS_f64(y, p, n) logs_f64(y, p, n)
#define BCE(suffix, T) \
    static void binary_cross_entropy_##suffix(const qn_task *t, void *y_, const void *const *x, int64_t n) \
    { \
        T *y = y_, yes[PART], no[PART], rest[PART]; \
        const T *a = x[0], *b = x[1]; \
        check(t, within_##suffix(a, n, 0, 1), within_##suffix(b, n, 0, 1)); \
        for (int64_t at = 0; at < n; at += PART) { \
            const int m = n - at < PART ? (int)(n - at) : PART; \
            for (int i = 0; i < m; i++) rest[i] = -(a[at + i] - 1); \
            LOGS_##suffix(yes, a + at, m); \
            LOGS_##suffix(no, rest, m); \
            for (int i = 0; i < m; i++) y[at + i] = -(b[at + i] * yes[i] + -(b[at + i] - 1) * no[i]); \
        } \
    }
BCE(f32, float)
BCE(f64, double)
static const qn_pw pw_bce = {.fn = {binary_cross_entropy_f32, binary_cross_entropy_f64, NULL}};
QN_PW_DRIVER(binary_cross_entropy, pw_bce)
