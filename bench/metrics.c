/* SPDX-License-Identifier: MIT */
/* bench/metrics.c -- what a record of the counters costs: a counter, a histogram, an operation's count and time, a
 * gauge (one number for all threads), the clock, the counter that a backend reads once a node instead, and a snapshot.
 * One thread, then as many as there are cores, two at least, that record the same thing. Prints nanoseconds of one; a
 * record of a counter, a histogram or an operation has to be under 35. */
#include "base/metrics.h"
#include "base/thread.h"
#include "graph/graph.h"

#include <stdio.h>

enum { N = 1000000, ROUNDS = 7 };

static void counter(void) { QN_COUNT(kernel_tasks, 1); }
static void histogram(void) { QN_OBSERVE(sample, 70000); }
static void gauge(void) { QN_GAUGE_ADD(mapped_bytes, 0); }
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
        double most; /* ns; 0: any */
    } rows[] = {{"counter", counter, 35}, {"histogram", histogram, 35}, {"operation", operation, 35},
                {"gauge", gauge, 0},      {"clock", clock_read, 0},     {"ticks", ticks, 0},
                {"snapshot", snapshot, 0}};
    const int n = qn__default_threads() > 2 ? qn__default_threads() : 2;
    qn_team *one = NULL, *all = NULL;
    bool slow = false;
    if (qn__team_create(&(qn_team_options){.n_threads = 1}, &one, NULL) != QN_OK) return 1;
    if (qn__team_create(&(qn_team_options){.n_threads = n}, &all, NULL) != QN_OK) return 1;
    printf("%-10s %12s %9d threads\n", "record", "1 thread", n);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const double alone = best_ns(one, rows[i].record), together = best_ns(all, rows[i].record);
        const bool over = rows[i].most > 0 && together > rows[i].most;
        printf("%-10s %9.1f ns %9.1f ns%s\n", rows[i].name, alone, together, over ? "  (at most 35)" : "");
        slow = slow || over;
    }
    qn__team_destroy(one);
    qn__team_destroy(all);
    return slow;
}
