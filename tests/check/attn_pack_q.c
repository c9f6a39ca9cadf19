/* SPDX-License-Identifier: MIT */
/* tests/check/attn_pack_q.c -- one row of queries as int16. */
#include "attn_pack.h"

CHECK_KERNEL(attn_pack_q)
{
    enum { N = 256 };
    if (t->bench) {
        float *x = check_floats(t, 0, 64, CHECK_AT_START);
        int16_t *y = check_buffer(t, 1, 128, 2, CHECK_AT_START);
        check_fill(t, x, 64, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "G elements/s", 64, t->kernels->attn_pack_q(y, x, 0.125f, 64));
        return;
    }
    static const int16_t sizes[] = {0, 1, 2, 15, 16, 17, 33, 64, 80, 255, N};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++) {
            const int64_t n = sizes[k], whole = (n + 15) / 16 * 16;
            const float s = fill % 2 ? 0.125f : 1.0f;
            float *x = check_floats(t, 0, n, CHECK_AT_END);
            int16_t *y = check_buffer(t, 1, (size_t)whole * 2, 2, CHECK_AT_END), ref[N];
            check_where(t, "n %lld, fill %s", (long long)n, check_fill_name((check_fill_kind)fill));
            check_fill(t, x, n, (check_fill_kind)fill);
            const float g = t->kernels->attn_pack_q(y, x, s, n), want = t->ref->attn_pack_q(ref, x, s, n);
            check_intact(t);
            check_same(t, &g, &want, 1, "at level ref, the scale");
            pack_same(t, y, ref, whole);
            for (int64_t i = n; i < whole; i++)
                if (y[i] != 0) check_fail(t, "%d behind the row", y[i]);
            if (!check_fill_finite((check_fill_kind)fill)) continue;
            pack_near(t, y, 1, x, s, n, g);
            const double length = pack_length(x, s, n) / g;
            if (length > QN_ATTN_Q_LENGTH * 1.00001) check_fail(t, "length %g", length);
            if (length < 32766 && g > 0x1.001p-60f) check_fail(t, "length only %g", length);
        }
    /* A length that no float holds the square of is not taken for a number. */
    float x[16] = {0x1p63f};
    int16_t y[16];
    check_where(t, "length 2^63");
    if (!isnan(t->kernels->attn_pack_q(y, x, 1, 16))) check_fail(t, "a number");
}
