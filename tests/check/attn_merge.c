/* SPDX-License-Identifier: MIT */
/* tests/check/attn_merge.c -- two weighted sums with their highest scores become one; lanes with nothing to add keep
 * their bits. */
#include "check.h"

enum { LANES = 48, N = 20 };

static void one_case(check *t, int64_t lanes, int64_t n, check_fill_kind fill, float spread)
{
    float *y = check_floats(t, 0, n * lanes, CHECK_AT_END), *y1 = check_floats(t, 1, n * lanes, CHECK_AT_END);
    float *max = check_floats(t, 2, lanes, CHECK_AT_END), *sum = check_floats(t, 3, lanes, CHECK_AT_END);
    float *max1 = check_floats(t, 4, lanes, CHECK_AT_END), *sum1 = check_floats(t, 5, lanes, CHECK_AT_END);
    float old[N * LANES], old_max[LANES], old_sum[LANES], ref[N * LANES], ref_max[LANES], ref_sum[LANES];
    check_where(t, "%lld lanes, n %lld, fill %s, spread %g", (long long)lanes, (long long)n, check_fill_name(fill),
                (double)spread);
    check_fill(t, old, n * lanes, CHECK_FILL_random);
    check_fill(t, y1, n * lanes, fill);
    check_fill(t, old_max, lanes, CHECK_FILL_random);
    check_fill(t, max1, lanes, CHECK_FILL_random);
    check_fill(t, old_sum, lanes, CHECK_FILL_positive);
    check_fill(t, sum1, lanes, CHECK_FILL_positive);
    for (int64_t l = 0; l < lanes; l++) {
        old_max[l] *= spread;
        max1[l] *= spread;
        if (l % 7 == 3) sum1[l] = 0;
        if (l % 5 == 1) old_max[l] = -INFINITY;
        if (l % 5 == 1) old_sum[l] = 0;
        for (int64_t j = 0; j < n && l % 5 == 1; j++) old[j * lanes + l] = 0;
    }
    memcpy(ref, old, sizeof ref);
    memcpy(ref_max, old_max, sizeof ref_max);
    memcpy(ref_sum, old_sum, sizeof ref_sum);
    if (n) memcpy(y, old, (size_t)(n * lanes) * 4);
    memcpy(max, old_max, (size_t)lanes * 4);
    memcpy(sum, old_sum, (size_t)lanes * 4);
    t->kernels->attn_merge(y, max, sum, y1, max1, sum1, lanes, n);
    check_intact(t);
    t->ref->attn_merge(ref, ref_max, ref_sum, y1, max1, sum1, lanes, n);
    check_same(t, y, ref, n * lanes, "at level ref");
    check_same(t, max, ref_max, lanes, "at level ref, the highest");
    check_same(t, sum, ref_sum, lanes, "at level ref, the sum");
    for (int64_t i = 0; i < n * lanes; i++) {
        const int64_t l = i % lanes;
        if (sum1[l] == 0) {
            check_same(t, y + i, old + i, 1, "before");
        } else if (check_fill_finite(fill)) {
            const double m = fmax((double)old_max[l], (double)max1[l]);
            const double a = exp((double)(old_max[l] - (float)m)), b = exp((double)(max1[l] - (float)m));
            const double x = a * old[i], x1 = b * y1[i], room = 2e-7 + 2 * FLT_EPSILON;
            check_close(t, y[i], x + x1,
                        room * (fabs(x) + fabs(x1)) + 2.4e-38 * (1 + fabs((double)y1[i]) + fabs((double)old[i])), i);
        }
    }
}

CHECK_KERNEL(attn_merge)
{
    if (t->bench) {
        float *y = check_floats(t, 0, 64 * 64, CHECK_AT_START), *y1 = check_floats(t, 1, 64 * 64, CHECK_AT_START);
        float max[64] = {0}, sum[64] = {0}, max1[64] = {0}, sum1[64];
        check_fill(t, y, 64 * 64, CHECK_FILL_zeros);
        check_fill(t, y1, 64 * 64, CHECK_FILL_zeros);
        for (int l = 0; l < 64; l++) sum1[l] = 1;
        CHECK_BENCH(t, t->row, "Gflop/s", 3 * 64 * 64, t->kernels->attn_merge(y, max, sum, y1, max1, sum1, 64, 64));
        return;
    }
    for (int64_t lanes = 16; lanes <= LANES; lanes += 16)
        for (int64_t n = 0; n <= N; n += n < 2 ? 1 : 6)
            for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
                for (int spread = 0; spread < 3; spread++)
                    one_case(t, lanes, n, (check_fill_kind)fill, (float[]){0, 1, 60}[spread]);
}
