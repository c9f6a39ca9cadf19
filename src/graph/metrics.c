/* SPDX-License-Identifier: MIT */
/* src/graph/metrics.c -- how often each operation was computed, and for how long: relaxed atomics, one pair an op. */
#include "graph/graph.h"

#include <stdatomic.h>

static struct {
    _Atomic uint64_t count, ns;
} totals[QN_OP_COUNT];

void qn__op_count(qn_op op, uint64_t count, uint64_t ns)
{
    atomic_fetch_add_explicit(&totals[op].count, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&totals[op].ns, ns, memory_order_relaxed);
}

int qn_op_metrics_snapshot(qn_op_metrics *out, int max)
{
    int n = 0;
    for (int op = 0; op < QN_OP_COUNT; op++) {
        const uint64_t count = atomic_load_explicit(&totals[op].count, memory_order_relaxed);
        if (count == 0) continue;
        if (n < max)
            out[n] = (qn_op_metrics){qn__op_info((qn_op)op)->name, count,
                                     atomic_load_explicit(&totals[op].ns, memory_order_relaxed)};
        n++;
    }
    return n;
}

void qn_op_metrics_reset(void)
{
    for (int op = 0; op < QN_OP_COUNT; op++) {
        atomic_store_explicit(&totals[op].count, 0, memory_order_relaxed);
        atomic_store_explicit(&totals[op].ns, 0, memory_order_relaxed);
    }
}
