/* SPDX-License-Identifier: MIT */
/* tests/check/probe_int8.c -- what measures 8-bit products does at least what was asked, and counts all of it. */
#include "check.h"

CHECK_KERNEL(probe_int8)
{
    if (t->bench) {
        volatile int64_t sink = 0;
        CHECK_BENCH(t, t->row, "Gop/s", 2.0 * (1 << 20), sink = t->kernels->probe_int8(1 << 20));
        (void)sink;
        return;
    }
    static const int64_t sizes[] = {1, 31, 32, 33, 255, 256, 1000, 1024, 1 << 20, (1 << 24) + 1, 1 << 27};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_where(t, "n %lld", (long long)sizes[i]);
        const int64_t got = t->kernels->probe_int8(sizes[i]);
        check_close(t, (double)(got - sizes[i]), 512, 512, -1); /* the rest of a step, at most 1024 */
    }
}
