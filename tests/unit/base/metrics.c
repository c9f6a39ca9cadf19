/* SPDX-License-Identifier: MIT */
/* tests/unit/base/metrics.c -- counters: recording from threads, snapshot, reset, gauges, no allocation. */
#include "base/mem.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "failing.h"

static void reset_spares_gauges(void **state)
{
    (void)state;
    qn_metrics m;
    char *p = qn__alloc(1000), *q = qn__alloc(5000);
    qn__free(q);
    QN_COUNT(graph_runs, 3);
    QN_COUNT(mapped_bytes, 4096);
    qn_metrics_snapshot(&m);
    assert_int_equal(m.graph_runs, 3);
    assert_true(m.peak_bytes >= m.live_bytes + 5000);
    const uint64_t live = m.live_bytes;

    qn_metrics_reset();
    qn_metrics_snapshot(&m);
    assert_int_equal(m.graph_runs, 0);
    assert_int_equal(m.allocs, 0);
    assert_int_equal(m.frees, 0);
    assert_int_equal(m.live_bytes, live);
    assert_int_equal(m.peak_bytes, live);
    assert_int_equal(m.mapped_bytes, 4096);
    QN_UNCOUNT(mapped_bytes, 4096);
    qn__free(p);
    qn_metrics_snapshot(&m);
    assert_int_equal(m.mapped_bytes, 0);
    assert_int_equal(m.live_bytes, 0);
}

static void record(void *ctx, int member, int n_members)
{
    (void)ctx, (void)member, (void)n_members;
    for (int i = 0; i < 10000; i++) QN_COUNT(kernel_tasks, 2);
}

static void nothing_is_lost(void **state)
{
    (void)state;
    qn_team *team;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 4}, &team, NULL), QN_OK);
    qn_metrics_reset();
    qn__team_run(team, record, NULL);
    assert_int_equal(QN_METRIC_READ(kernel_tasks), 80000);
    assert_int_equal(QN_METRIC_READ(allocs), 0); /* neither recording nor running allocates */
    qn__team_destroy(team);
}

static void peak(void *ctx, int member, int n_members)
{
    (void)ctx, (void)n_members;
    for (int i = 0; i < 300; i++) qn__free(qn__alloc(1000 + (size_t)member * 1000));
}

static void peak_never_under_live(void **state)
{
    (void)state;
    qn_team *team;
    qn_metrics m;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 4}, &team, NULL), QN_OK);
    qn_metrics_reset();
    const uint64_t base = QN_METRIC_READ(live_bytes);
    qn__team_run(team, peak, NULL);
    qn_metrics_snapshot(&m);
    assert_int_equal(m.live_bytes, base);
    assert_int_equal(m.allocs, 1200);
    assert_true(m.peak_bytes >= base + 4000 && m.peak_bytes <= base + 1000 + 2000 + 3000 + 4000 + 4 * 64);
    qn__team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reset_spares_gauges),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(peak_never_under_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
