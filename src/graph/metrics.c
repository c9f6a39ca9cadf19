/* SPDX-License-Identifier: MIT */
/* src/graph/metrics.c -- how often each operation was computed, and for how long: a row of numbers a thread, as all
 * counters (base/metrics.h). */
#include "base/metrics.h"
#include "graph/graph.h"

#include <stdatomic.h>

enum { NUMBERS = 2 * QN_OP_COUNT }; /* count and nanoseconds of each */

static _Alignas(64) _Atomic uint64_t totals[QN_METRIC_SHARDS + 1][NUMBERS];
static uint64_t base[NUMBERS];

void qn__op_count(qn_op op, uint64_t count, uint64_t ns)
{
    const int shard = qn__metric_shard_of_thread();
    qn__metric_add(&totals[shard][2 * op], shard, count);
    qn__metric_add(&totals[shard][2 * op + 1], shard, ns);
}

/* Those whose row is out of room are not taken. */
static int read_ops(qn_op_metrics *out, int max, bool take, bool all)
{
    uint64_t sums[2];
    int n = 0;
    for (int op = 0; op < QN_OP_COUNT; op++) {
        const bool room = n < max || all;
        qn__metric_sum(&totals[0][2 * op], NUMBERS, 2, &base[2 * op], take && room, sums);
        if (sums[0] == 0) continue;
        if (n < max) out[n] = (qn_op_metrics){qn__op_info((qn_op)op)->name, sums[0], sums[1]};
        n++;
    }
    return n;
}

int qn_op_metrics_snapshot(qn_op_metrics *out, int max) { return read_ops(out, max, false, false); }
int qn_op_metrics_take(qn_op_metrics *out, int max) { return read_ops(out, max, true, false); }
void qn_op_metrics_reset(void) { (void)read_ops(NULL, 0, true, true); }
