/* SPDX-License-Identifier: MIT */
/* tests/check/attn_add_some.c -- fused multiply-adds for some lanes; the others keep their bits, even where the product
 * is no number. */
#include "check.h"

CHECK_KERNEL(attn_add_some)
{
    enum { LANES = 48, N = 40 };
    if (t->bench) {
        float *y = check_floats(t, 0, 64 * 64, CHECK_AT_START), v[64] = {0}, p[64] = {0};
        int32_t begin[64] = {0}, end[64];
        check_fill(t, y, 64 * 64, CHECK_FILL_random);
        for (int l = 0; l < 64; l++) end[l] = l;
        CHECK_BENCH(t, t->row, "Gflop/s", 2 * 64 * 64, t->kernels->attn_add_some(y, 64, v, p, 64, 9, begin, end));
        return;
    }
    for (int64_t lanes = 16; lanes <= LANES; lanes += 16)
        for (int64_t n = 0; n <= N; n += n < 4 ? 1 : 9)
            for (int fill = 0; fill < CHECK_FILL_COUNT; fill++) {
                float *y = check_floats(t, 0, n * lanes, CHECK_AT_END), *v = check_floats(t, 1, n, CHECK_AT_END);
                float *p = check_floats(t, 2, lanes, CHECK_AT_END), old[N * LANES], ref[N * LANES];
                int32_t *begin = check_buffer(t, 3, (size_t)lanes * 4, 4, CHECK_AT_END);
                int32_t *end = check_buffer(t, 4, (size_t)lanes * 4, 4, CHECK_AT_END);
                check_where(t, "%lld lanes, n %lld, fill %s", (long long)lanes, (long long)n,
                            check_fill_name((check_fill_kind)fill));
                check_fill(t, old, n * lanes, CHECK_FILL_random);
                check_fill(t, v, n, (check_fill_kind)fill);
                check_fill(t, p, lanes, CHECK_FILL_random);
                for (int64_t l = 0; l < lanes; l++) {
                    begin[l] = (int32_t)(check_random(t) % 3);
                    end[l] = begin[l] + (int32_t)(check_random(t) % 3);
                }
                memcpy(ref, old, (size_t)(n * lanes) * 4);
                if (n) memcpy(y, old, (size_t)(n * lanes) * 4);
                t->kernels->attn_add_some(y, n, v, p, lanes, 2, begin, end);
                check_intact(t);
                t->ref->attn_add_some(ref, n, v, p, lanes, 2, begin, end);
                check_same(t, y, ref, n * lanes, "at level ref");
                for (int64_t i = 0; i < n * lanes; i++) {
                    const int64_t l = i % lanes;
                    const bool in = begin[l] <= 2 && 2 < end[l];
                    if (!in)
                        check_same(t, y + i, old + i, 1, "before");
                    else if (check_fill_finite((check_fill_kind)fill)) {
                        const double x = (double)v[i / lanes] * p[l];
                        check_close(t, y[i], old[i] + x,
                                    2 * FLT_EPSILON * (fabs(x) + fabs((double)old[i])) + FLT_TRUE_MIN, i);
                    }
                }
            }
}
