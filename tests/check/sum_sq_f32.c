/* SPDX-License-Identifier: MIT */
/* tests/check/sum_sq_f32.c -- sum of x x: near the exact sum, in the one order that every level has. */
#include "check.h"

static float call(const qn_kernels *kernels, const float *x, int64_t n) { return kernels->sum_sq_f32(x, n); }

CHECK_KERNEL(sum_sq_f32)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        volatile float sink = 0;
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 4 * CHECK_BENCH_N, sink = call(t->kernels, x, CHECK_BENCH_N));
        (void)sink;
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                float *x = check_floats(t, 0, *n, (check_place)place);
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                check_fill(t, x, *n, (check_fill_kind)fill);
                const float got = call(t->kernels, x, *n), ref = call(t->ref, x, *n);
                check_same(t, &got, &ref, 1, "at level ref");
                check_intact(t);
                double want = 0;
                for (int64_t i = 0; i < *n; i++) want += (double)x[i] * x[i];
                if (!check_fill_finite((check_fill_kind)fill)) continue;
                check_close(t, got, want, (double)*n * (FLT_EPSILON * want + FLT_TRUE_MIN), -1);
            }
}
