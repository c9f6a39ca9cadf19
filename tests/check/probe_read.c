/* SPDX-License-Identifier: MIT */
/* tests/check/probe_read.c -- what measures bandwidth reads every byte of what it counts. */
#include "check.h"

CHECK_KERNEL(probe_read)
{
    if (t->bench) {
        uint8_t *x = check_buffer(t, 0, CHECK_BENCH_N * 8, 1, CHECK_AT_START);
        volatile uint64_t sink = 0;
        CHECK_BENCH(t, t->row, "GB/s", CHECK_BENCH_N * 8, sink = t->kernels->probe_read(x, CHECK_BENCH_N));
        (void)sink;
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
            uint8_t *x = check_buffer(t, 0, (size_t)*n * 8, 1, (check_place)place), want[8] = {0};
            check_where(t, "n %lld, place %d", (long long)*n, place);
            for (int64_t i = 0; i < *n * 8; i++) {
                x[i] = (uint8_t)check_random(t);
                want[i % 8] ^= x[i];
            }
            const uint64_t got = t->kernels->probe_read(x, *n);
            check_same_bytes(t, &got, want, 8, "expected");
        }
}
