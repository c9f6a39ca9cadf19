/* SPDX-License-Identifier: MIT */
/* tests/check/attn_pack_k.c -- rows of K as int16. */
#include "attn_pack.h"

CHECK_KERNEL(attn_pack_k)
{
    enum { N = 256, CELLS = 5 };
    if (t->bench) {
        float *x = check_floats(t, 0, 16 * 64, CHECK_AT_START), scale[16];
        int16_t *y = check_buffer(t, 1, 16 * 64 * 2, 2, CHECK_AT_START);
        check_fill(t, x, 16 * 64, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "G elements/s", 16 * 64, t->kernels->attn_pack_k(y, scale, x, 16, 64));
        return;
    }
    for (int64_t n = 16; n <= N; n += n < 80 ? 16 : 176)
        for (int64_t cells = 0; cells <= CELLS; cells++)
            for (int fill = 0; fill < CHECK_FILL_COUNT; fill++) {
                float *x = check_floats(t, 0, cells * n, CHECK_AT_END),
                      *scale = check_floats(t, 2, cells, CHECK_AT_END), ref_scale[CELLS];
                int16_t *y = check_buffer(t, 1, (size_t)(cells * n) * 2, 2, CHECK_AT_END), ref[CELLS * N];
                check_where(t, "n %lld, %lld cells, fill %s", (long long)n, (long long)cells,
                            check_fill_name((check_fill_kind)fill));
                check_fill(t, x, cells * n, (check_fill_kind)fill);
                t->kernels->attn_pack_k(y, scale, x, cells, n);
                check_intact(t);
                t->ref->attn_pack_k(ref, ref_scale, x, cells, n);
                check_same(t, scale, ref_scale, cells, "at level ref, the scale");
                for (int64_t c = 0; c < cells; c++)
                    if (!isnan(scale[c])) pack_same(t, y + c * n, ref + c * n, n); /* or the integers mean nothing */
                for (int64_t c = 0; c < cells && check_fill_finite((check_fill_kind)fill); c++) {
                    pack_near(t, y + c * n, 1, x + c * n, 1, n, scale[c]);
                    int exponent;
                    const double length = pack_length(x + c * n, 1, n) / scale[c];
                    if (frexp(scale[c], &exponent) != 0.5) check_fail(t, "scale %g is no power of two", scale[c]);
                    if (length > 32768.1 || (length < 16383 && exponent > -77))
                        check_fail(t, "cell %d: length %g", (int)c, length);
                }
            }
}
