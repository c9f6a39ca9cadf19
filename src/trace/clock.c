/* SPDX-License-Identifier: MIT */
/* src/trace/clock.c -- see clock.h. */
#include "trace/clock.h"
#include "base/trace.h"

bool qn__trace_counter_is_clock(void)
{
#if defined(__aarch64__)
    return true;
#elif defined(__x86_64__)
    unsigned a = 0x80000000u, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (a < 0x80000007u) return false;
    a = 0x80000007u;
    c = 0;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (d >> 8 & 1) != 0;
#else
    return false;
#endif
}

void qn__trace_read_both(uint64_t *ticks, int64_t *ns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        const uint64_t before = qn__trace_ticks();
        const int64_t at = qn__now_ns();
        const uint64_t after = qn__trace_ticks();
        if (after - before >= best) continue;
        best = after - before;
        *ticks = before + best / 2;
        *ns = at;
    }
}

double qn__trace_measure_event(void)
{
    enum { N = 2000 };
    volatile qn_trace_slot slot;
    const int64_t start = qn__now_ns();
    for (int i = 0; i < N; i++) {
        const uint64_t begin = qn__trace_ticks(), end = qn__trace_ticks();
        slot = (qn_trace_slot){.begin = begin, .duration = (end - begin) & QN_TRACE_MAX_TICKS};
        (void)slot.begin;
    }
    return (double)(qn__now_ns() - start) / N;
}
