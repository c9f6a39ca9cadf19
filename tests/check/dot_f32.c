/* SPDX-License-Identifier: MIT */
/* tests/check/dot_f32.c -- sum of x y: near the exact sum, in the one order that every level has. */
#include "check.h"

static float call(const qn_kernels *kernels, const float *x, const float *y, int64_t n)
{
    return kernels->dot_f32(x, y, n);
}

/* Every product rounds to -0: the zeros past the end of a tail still make their lanes 0. */
static void vanishing(check *t)
{
    float x[40], y[40];
    for (int i = 0; i < 40; i++) {
        x[i] = -0x1p-100f;
        y[i] = 0x1p-100f;
    }
    for (int n = 0; n <= 40; n++) {
        const float got = call(t->kernels, x, y, n), want = n > 0 && n % 16 == 0 ? -0.0f : 0.0f;
        check_where(t, "n %d, products that vanish", n);
        check_same(t, &got, &want, 1, "expected");
    }
}

CHECK_KERNEL(dot_f32)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START),
              *y = check_floats(t, 1, CHECK_BENCH_N, CHECK_AT_START);
        volatile float sink = 0;
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        check_fill(t, y, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 8 * CHECK_BENCH_N, sink = call(t->kernels, x, y, CHECK_BENCH_N));
        (void)sink;
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                float *x = check_floats(t, 0, *n, (check_place)place), *y = check_floats(t, 1, *n, (check_place)place);
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                check_fill(t, x, *n, (check_fill_kind)fill);
                check_fill(t, y, *n, (check_fill_kind)fill);
                const float got = call(t->kernels, x, y, *n), ref = call(t->ref, x, y, *n);
                check_same(t, &got, &ref, 1, "at level ref");
                check_intact(t);
                double want = 0, size = 0;
                for (int64_t i = 0; i < *n; i++) {
                    want += (double)x[i] * y[i];
                    size += fabs((double)x[i] * y[i]);
                }
                if (!check_fill_finite((check_fill_kind)fill)) continue;
                check_close(t, got, want, (double)*n * (FLT_EPSILON * size + FLT_TRUE_MIN), -1);
            }
    vanishing(t);
}
