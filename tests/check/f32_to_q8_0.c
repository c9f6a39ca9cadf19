/* SPDX-License-Identifier: MIT */
/* tests/check/f32_to_q8_0.c -- Q8_0 within half a step of its own scale; damaged blocks stay visible. */
#include "check.h"

static void verdict(check *t, const float *x, const uint8_t *block)
{
    const double d = qn__f16_to_f32((uint16_t)(block[0] | block[1] << 8));
    double max = 0;
    bool finite = true;
    for (int i = 0; i < 32; i++) {
        finite = finite && isfinite(x[i]);
        max = fmax(max, fabs((double)x[i]));
    }
    if (!finite) {
        check_close(t, d, NAN, 0, -1);
    } else {
        const double scale = fmin(max / 127, 65504);
        check_close(t, d, scale, scale * 0x1p-11 * 1.001 + 0x1p-25, -1);
    }
    for (int i = 0; i < 32; i++) {
        const double q = (int8_t)block[2 + i], limit = 127 * d;
        if (!finite || d == 0)
            check_close(t, q, 0, 0, i);
        else
            check_close(t, d * q, fmax(-limit, fmin(limit, x[i])), 0.5001 * d, i);
    }
}

static void one_case(check *t, int64_t n, check_fill_kind fill, check_place place)
{
    const size_t bytes = (size_t)n / 32 * 34;
    float *x = check_floats(t, 0, n, place);
    uint8_t *y = check_buffer(t, 1, bytes, 1, place), *ref = check_buffer(t, 2, bytes, 1, place);
    check_fill(t, x, n, fill);
    t->kernels->f32_to_q8_0(y, x, n);
    t->ref->f32_to_q8_0(ref, x, n);
    check_intact(t);
    check_same_bytes(t, y, ref, bytes, "at level ref");
    for (int64_t b = 0; b < n / 32; b++) verdict(t, x + b * 32, y + b * 34);
}

CHECK_KERNEL(f32_to_q8_0)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        uint8_t *y = check_buffer(t, 1, CHECK_BENCH_N / 32 * 34, 1, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", CHECK_BENCH_N * (4 + 34 / 32.0), t->kernels->f32_to_q8_0(y, x, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes_32; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                one_case(t, *n, (check_fill_kind)fill, (check_place)place);
            }
}
