/* SPDX-License-Identifier: MIT */
/* tests/check/attn_pack_v.c -- rows of V as int16, in pairs of rows. */
#include "attn_pack.h"

CHECK_KERNEL(attn_pack_v)
{
    enum { N = 256, CELLS = 5 };
    if (t->bench) {
        float *x = check_floats(t, 0, 16 * 64, CHECK_AT_START), log_scale[16], weight[16];
        int16_t *y = check_buffer(t, 1, 16 * 64 * 2, 2, CHECK_AT_START);
        check_fill(t, x, 16 * 64, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "G elements/s", 16 * 64, t->kernels->attn_pack_v(y, log_scale, weight, x, 16, 64));
        return;
    }
    for (int64_t n = 16; n <= N; n += n < 80 ? 16 : 176)
        for (int64_t cells = 0; cells <= CELLS; cells++)
            for (int fill = 0; fill < CHECK_FILL_COUNT; fill++) {
                const int64_t n_y = (cells + 1) / 2 * 2 * n;
                float *x = check_floats(t, 0, cells * n, CHECK_AT_END), ref_log[CELLS], ref_weight[CELLS];
                float *log_scale = check_floats(t, 2, cells, CHECK_AT_END),
                      *weight = check_floats(t, 3, cells, CHECK_AT_END);
                int16_t *y = check_buffer(t, 1, (size_t)n_y * 2, 2, CHECK_AT_END), ref[(CELLS + 1) * N];
                check_where(t, "n %lld, %lld cells, fill %s", (long long)n, (long long)cells,
                            check_fill_name((check_fill_kind)fill));
                check_fill(t, x, cells * n, (check_fill_kind)fill);
                t->kernels->attn_pack_v(y, log_scale, weight, x, cells, n);
                check_intact(t);
                t->ref->attn_pack_v(ref, ref_log, ref_weight, x, cells, n);
                check_same(t, log_scale, ref_log, cells, "at level ref, the logarithm");
                check_same(t, weight, ref_weight, cells, "at level ref, the weight");
                for (int64_t c = 0; c < cells; c++) {
                    if (isnan(weight[c])) continue; /* the integers mean nothing */
                    const int16_t *row = y + c / 2 * 2 * n + c % 2, *ref_row = ref + c / 2 * 2 * n + c % 2;
                    int highest = 0;
                    for (int64_t i = 0; i < n; i++) {
                        if (row[2 * i] != ref_row[2 * i])
                            check_fail(t, "cell %d: %d, %d at level ref", (int)c, row[2 * i], ref_row[2 * i]);
                        highest = abs(row[2 * i]) > highest ? abs(row[2 * i]) : highest;
                    }
                    pack_near(t, row, 2, x + c * n, 1, n, 1.0 / weight[c]);
                    check_close(t, log_scale[c], -log(weight[c]), 2 * FLT_EPSILON * fabs(log(weight[c])), c);
                    if (highest < 16384 && weight[c] < 0x1p40f) check_fail(t, "cell %d: up to %d", (int)c, highest);
                }
                for (int64_t i = 0; i < n && cells % 2; i++)
                    if (y[(cells / 2 * n + i) * 2 + 1] != 0) check_fail(t, "the missing row is not 0");
            }
    float x[16] = {0, -0x1.fffffep-3f}, log_scale, weight;
    int16_t y[32];
    check_where(t, "just below a power of two"); /* 2^15 would leave int16 */
    t->kernels->attn_pack_v(y, &log_scale, &weight, x, 1, 16);
    if (weight != 0x1p16f || y[2] != -16384) check_fail(t, "weight %g, %d", (double)weight, y[2]);
    x[1] = -0x1.fffdfep-3f;
    t->kernels->attn_pack_v(y, &log_scale, &weight, x, 1, 16);
    if (weight != 0x1p17f || y[2] != -32767) check_fail(t, "weight %g, %d", (double)weight, y[2]);
    x[1] = -0x1p64f;
    check_where(t, "magnitude 2^64");
    t->kernels->attn_pack_v(y, &log_scale, &weight, x, 1, 16);
    if (!isnan(log_scale) || !isnan(weight)) check_fail(t, "a number");
}
