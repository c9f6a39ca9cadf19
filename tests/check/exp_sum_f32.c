/* SPDX-License-Identifier: MIT */
/* tests/check/exp_sum_f32.c -- y = exp(x - max) and its sum. */
#include "check.h"

static double want(float x, float max, double *bound)
{
    const double y = exp((double)(x - max)); /* of the rounded difference, as the row says */
    *bound = 1e-7 * y + 1.2e-38;
    return y > FLT_MAX ? INFINITY : y;
}

/* One float in 4099 of all there are, every exponent and sign among them. */
static void dense(check *t)
{
    enum { N = 1024 };
    float x[N], y[N];
    check_where(t, "one float in 4099");
    for (uint64_t bits = 0; bits >> 32 == 0;) {
        int n = 0;
        for (; n < N && bits >> 32 == 0; bits += 4099) {
            const uint32_t u = (uint32_t)bits;
            memcpy(&x[n++], &u, 4);
        }
        t->kernels->exp_sum_f32(y, x, 0, n);
        for (int i = 0; i < n; i++) {
            double bound;
            const double exact = want(x[i], 0, &bound);
            check_close(t, y[i], exact, bound, i);
        }
    }
}

static float highest(const float *x, int64_t n)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

static void one_case(check *t, int64_t n, check_fill_kind fill, check_place place)
{
    float *x = check_floats(t, 0, n, place), *y = check_floats(t, 1, n, place), *ref = check_floats(t, 2, n, place);
    double sum = 0, bound;
    check_fill(t, x, n, fill);
    for (int64_t i = 0; i < n && fill == CHECK_FILL_random; i += 5) x[i] = -INFINITY; /* masked */
    const float max = n > 5 ? highest(x, n) : 1;
    const float got = t->kernels->exp_sum_f32(y, x, max, n), other = t->ref->exp_sum_f32(ref, x, max, n);
    check_intact(t);
    check_same(t, y, ref, n, "at level ref");
    check_same(t, &got, &other, 1, "at level ref, the sum");
    for (int64_t i = 0; i < n; i++) {
        const double exact = want(x[i], max, &bound);
        check_close(t, y[i], exact, bound, i);
        sum += y[i];
    }
    check_close(t, got, sum > FLT_MAX ? INFINITY : sum, (double)n * FLT_EPSILON * sum, -1);
    for (int64_t at = 0; at < n; at += 1 + (int64_t)(check_random(t) % 97)) {
        float alone;
        t->kernels->exp_sum_f32(&alone, x + at, max, 1);
        check_same(t, &alone, y + at, 1, "in the whole row");
    }
    t->kernels->exp_sum_f32(x, x, max, n);
    check_same(t, x, y, n, "out of place");
    check_intact(t);
}

CHECK_KERNEL(exp_sum_f32)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START),
              *y = check_floats(t, 1, CHECK_BENCH_N, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 8 * CHECK_BENCH_N, t->kernels->exp_sum_f32(y, x, 4, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                one_case(t, *n, (check_fill_kind)fill, (check_place)place);
            }
    dense(t);
}
