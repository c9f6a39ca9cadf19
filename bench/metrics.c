/* SPDX-License-Identifier: MIT */
/* bench/metrics.c -- what a record of the counters costs: a metric, an operation's count and time, the clock, the
 * counter that a backend reads once a node instead, and a snapshot. One thread, then two that count the same. Prints
 * nanoseconds of one. */
#include "base/metrics.h"
#include "base/thread.h"
#include "graph/graph.h"

#include <stdio.h>

enum { N = 2000000, ROUNDS = 7 };

static void metric(void) { QN_COUNT(kernel_tasks, 1); }
static void operation(void) { qn__op_count(QN_OP_add, 1, 100); }
static volatile int64_t seen;
static void clock_read(void) { seen = qn__now_ns(); }
static void ticks(void) { seen = (int64_t)qn__ticks(); }
static void snapshot(void)
{
    qn_metrics m;
    qn_metrics_snapshot(&m);
    seen = (int64_t)m.allocs;
}

static void repeat(void *fn, int member, int n_members)
{
    void (*const record)(void) = *(void (**)(void))fn;
    (void)member, (void)n_members;
    for (int i = 0; i < N; i++) record();
}

/* The best of several rounds: what disturbs can only add. */
static double best_ns(qn_team *team, void (*record)(void))
{
    double best = 1e30;
    for (int r = 0; r < ROUNDS; r++) {
        const int64_t start = qn__now_ns();
        qn__team_run(team, repeat, (void *)&record);
        const double ns = (double)(qn__now_ns() - start) / N;
        if (ns < best) best = ns;
    }
    return best;
}

int main(void)
{
    static const struct {
        const char *name;
        void (*record)(void);
    } rows[] = {
        {"metric", metric}, {"operation", operation}, {"clock", clock_read}, {"ticks", ticks}, {"snapshot", snapshot}};
    qn_team *one = NULL, *two = NULL;
    if (qn__team_create(&(qn_team_options){.n_threads = 1}, &one, NULL) != QN_OK) return 1;
    if (qn__team_create(&(qn_team_options){.n_threads = 2}, &two, NULL) != QN_OK) return 1;
    printf("%-10s %12s %12s\n", "record", "1 thread", "2 threads");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("%-10s %9.1f ns %9.1f ns\n", rows[i].name, best_ns(one, rows[i].record), best_ns(two, rows[i].record));
    qn__team_destroy(one);
    qn__team_destroy(two);
    return 0;
}
