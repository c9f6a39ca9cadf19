/* SPDX-License-Identifier: MIT */
/* tests/check/f16_to_f32.c -- every binary16 value becomes exactly itself. */
#include "check.h"

/* The value by the definition of the format: 10 bits of significand after the point, exponents from -14. */
static double value(uint16_t h)
{
    const int exponent = h >> 10 & 31, significand = h & 1023;
    const double sign = h >> 15 ? -1 : 1;
    if (exponent == 31) return significand ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + significand, exponent - 1 + -14 - 10) : ldexp(significand, -14 - 10));
}

static void one_case(check *t, int64_t n, check_place place, uint16_t first)
{
    uint16_t *x = check_buffer(t, 0, (size_t)n * 2, 2, place);
    float *y = check_floats(t, 1, n, place), *ref = check_floats(t, 2, n, place);
    for (int64_t i = 0; i < n; i++) x[i] = (uint16_t)(first + i * 40503); /* odd: 65536 in a row are all there are */
    t->kernels->f16_to_f32(y, x, n);
    t->ref->f16_to_f32(ref, x, n);
    check_intact(t);
    check_same(t, y, ref, n, "at level ref");
    for (int64_t i = 0; i < n; i++) check_close(t, y[i], value(x[i]), 0, x[i]);
    for (int64_t i = 0; i < n; i++)
        if (y[i] == 0) check_close(t, signbit(y[i]) != 0, x[i] >> 15, 0, x[i]);
}

CHECK_KERNEL(f16_to_f32)
{
    if (t->bench) {
        uint16_t *x = check_buffer(t, 0, CHECK_BENCH_N * 2, 2, CHECK_AT_START);
        float *y = check_floats(t, 1, CHECK_BENCH_N, CHECK_AT_START);
        memset(x, 0x3c, CHECK_BENCH_N * 2);
        CHECK_BENCH(t, t->row, "GB/s", 6 * CHECK_BENCH_N, t->kernels->f16_to_f32(y, x, CHECK_BENCH_N));
        return;
    }
    for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
        check_where(t, "every value, place %d", place);
        one_case(t, 65536, (check_place)place, 0);
        for (const int64_t *n = check_sizes; *n >= 0; n++) {
            check_where(t, "n %lld, place %d", (long long)*n, place);
            one_case(t, *n, (check_place)place, (uint16_t)check_random(t));
        }
    }
}
