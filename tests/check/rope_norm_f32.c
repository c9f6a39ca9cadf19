/* SPDX-License-Identifier: MIT */
/* tests/check/rope_norm_f32.c -- rotates pairs of neighbours. */
#include "check.h"

static void one_case(check *t, int64_t n, check_fill_kind fill, check_place place)
{
    float *x = check_floats(t, 0, 2 * n, place), *cos_sin = check_floats(t, 1, 2 * n, place);
    float *y = check_floats(t, 2, 2 * n, place), *ref = check_floats(t, 3, 2 * n, place);
    check_fill(t, x, 2 * n, fill);
    for (int64_t i = 0; i < n; i++) {
        const double angle = check_uniform(t, -4, 4);
        cos_sin[2 * i] = (float)cos(angle);
        cos_sin[2 * i + 1] = (float)sin(angle);
    }
    t->kernels->rope_norm_f32(y, x, cos_sin, n);
    t->ref->rope_norm_f32(ref, x, cos_sin, n);
    check_intact(t);
    check_same(t, y, ref, 2 * n, "at level ref");
    for (int64_t i = 0; i < n && check_fill_finite(fill); i++) {
        const int64_t i0 = 2 * i, i1 = 2 * i + 1;
        const double x0 = x[i0], x1 = x[i1], c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        check_close(t, y[i0], x0 * c - x1 * s, 2 * FLT_EPSILON * (fabs(x0 * c) + fabs(x1 * s)) + FLT_TRUE_MIN, i0);
        check_close(t, y[i1], x0 * s + x1 * c, 2 * FLT_EPSILON * (fabs(x0 * s) + fabs(x1 * c)) + FLT_TRUE_MIN, i1);
    }
    t->kernels->rope_norm_f32(x, x, cos_sin, n);
    check_same(t, x, y, 2 * n, "out of place");
    check_intact(t);
}

CHECK_KERNEL(rope_norm_f32)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        float *cos_sin = check_floats(t, 1, CHECK_BENCH_N, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        for (int i = 0; i < CHECK_BENCH_N; i++) cos_sin[i] = 0.70710678f;
        CHECK_BENCH(t, t->row, "GB/s", 12 * CHECK_BENCH_N, t->kernels->rope_norm_f32(x, x, cos_sin, CHECK_BENCH_N / 2));
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                check_where(t, "%lld pairs, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                one_case(t, *n, (check_fill_kind)fill, (check_place)place);
            }
}
