/* SPDX-License-Identifier: MIT */
/* tests/check/dot_dev_f32.c -- sum of a w (x - mean): near the exact sum, in the one order that every level has. */
#include "check.h"

static const float mean = 0.3f;

static void one(check *t, int64_t n, check_fill_kind fill, check_place place, bool weighed)
{
    float *a = check_floats(t, 0, n, place), *x = check_floats(t, 1, n, place),
          *w = weighed ? check_floats(t, 2, n, place) : NULL;
    check_where(t, "n %lld, fill %s, place %d, %s", (long long)n, check_fill_name(fill), place,
                weighed ? "weighed" : "alone");
    check_fill(t, a, n, fill);
    check_fill(t, x, n, fill);
    if (w) check_fill(t, w, n, fill);
    const float got = t->kernels->dot_dev_f32(a, w, x, mean, n), ref = t->ref->dot_dev_f32(a, w, x, mean, n);
    check_same(t, &got, &ref, 1, "at level ref");
    check_intact(t);
    double want = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const double part = (double)a[i] * (w ? (double)w[i] : 1) * ((double)x[i] - mean);
        want += part;
        size += fabs(part);
    }
    if (check_fill_finite(fill)) check_close(t, got, want, (double)(n + 2) * (FLT_EPSILON * size + FLT_TRUE_MIN), -1);
}

CHECK_KERNEL(dot_dev_f32)
{
    if (t->bench) {
        float *a = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START),
              *x = check_floats(t, 1, CHECK_BENCH_N, CHECK_AT_START);
        volatile float sink = 0;
        check_fill(t, a, CHECK_BENCH_N, CHECK_FILL_random);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 8 * CHECK_BENCH_N,
                    sink = t->kernels->dot_dev_f32(a, NULL, x, mean, CHECK_BENCH_N));
        (void)sink;
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++)
                for (int weighed = 0; weighed < 2; weighed++)
                    one(t, *n, (check_fill_kind)fill, (check_place)place, weighed != 0);
}
