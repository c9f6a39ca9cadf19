/* SPDX-License-Identifier: MIT */
/* tests/check/q8_0_to_f32.c -- a Q8_0 block becomes exactly its values. */
#include "check.h"

static void one_case(check *t, int64_t n, check_place place)
{
    uint8_t *x = check_buffer(t, 0, (size_t)n / 32 * 34, 1, place);
    float *y = check_floats(t, 1, n, place), *ref = check_floats(t, 2, n, place);
    for (int64_t i = 0; i < n / 32 * 34; i++) x[i] = (uint8_t)check_random(t);
    t->kernels->q8_0_to_f32(y, x, n);
    t->ref->q8_0_to_f32(ref, x, n);
    check_intact(t);
    check_same(t, y, ref, n, "at level ref");
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *b = x + i / 32 * 34;
        const double d = qn__f16_to_f32((uint16_t)(b[0] | b[1] << 8)), q = (int8_t)b[2 + i % 32];
        check_close(t, y[i], d * q, 0, i);
    }
}

CHECK_KERNEL(q8_0_to_f32)
{
    if (t->bench) {
        uint8_t *x = check_buffer(t, 0, CHECK_BENCH_N / 32 * 34, 1, CHECK_AT_START);
        float *y = check_floats(t, 1, CHECK_BENCH_N, CHECK_AT_START);
        memset(x, 1, CHECK_BENCH_N / 32 * 34);
        CHECK_BENCH(t, t->row, "GB/s", CHECK_BENCH_N * (4 + 34 / 32.0), t->kernels->q8_0_to_f32(y, x, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes_32; *n >= 0; n++)
        for (int place = 0; place < CHECK_PLACE_COUNT; place++)
            for (int times = 0; times < 8; times++) {
                check_where(t, "n %lld, place %d", (long long)*n, place);
                one_case(t, *n, (check_place)place);
            }
}
