/* SPDX-License-Identifier: MIT */
/* tests/check/probe.h -- what measures arithmetic counts what it does: whole steps, as many as `n` multiply-adds need,
 * neither one more nor one less. A level's step is what it counts for one; a count that is off by a constant or a
 * factor is off its own multiples. */
#ifndef QN_CHECK_PROBE_H
#define QN_CHECK_PROBE_H

#include "check.h"

static void probe_once(check *t, int64_t (*probe)(int64_t), int64_t n, int64_t step)
{
    check_where(t, "n %lld, step %lld", (long long)n, (long long)step);
    check_close(t, (double)probe(n), (double)((n + step - 1) / step * step), 0, -1);
}

static void check_probe(check *t, const char *unit, int64_t (*probe)(int64_t))
{
    if (t->bench) {
        volatile int64_t sink = 0;
        CHECK_BENCH(t, t->row, unit, 2.0 * (1 << 20), sink = probe(1 << 20));
        (void)sink;
        return;
    }
    const int64_t step = probe(1);
    check_where(t, "n 1");
    check_close(t, (double)step, 512.5, 511.5, -1);
    if (step < 1) return;
    const int64_t sizes[] = {2, 31, 32, 33, 255, 256, 1000, 1024, 1 << 20, (1 << 24) + 1, 1 << 27};
    const int64_t steps[] = {1, 2, 3, 64, 65, 100}; /* at a multiple, and one beside it */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) probe_once(t, probe, sizes[i], step);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        for (int beside = -1; beside <= 1; beside++) probe_once(t, probe, steps[i] * step + beside, step);
}

#endif
