/* SPDX-License-Identifier: MIT */
/* tests/unit/base/metrics.c -- counters: recording from threads, snapshot, reset, gauges, no allocation. */
#include "base/mem.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "failing.h"

#include <pthread.h>

static void reset_spares_gauges(void **state)
{
    (void)state;
    qn_metrics m;
    char *p = qn__alloc(1000), *q = qn__alloc(5000);
    qn__free(q);
    QN_COUNT(graph_runs, 3);
    QN_GAUGE_ADD(mapped_bytes, 4096);
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
    QN_GAUGE_SUB(mapped_bytes, 4096);
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
    const uint64_t base = QN_GAUGE_READ(live_bytes);
    qn__team_run(team, peak, NULL);
    qn_metrics_snapshot(&m);
    assert_int_equal(m.live_bytes, base);
    assert_int_equal(m.allocs, 1200);
    assert_true(m.peak_bytes >= base + 4000 && m.peak_bytes <= base + 1000 + 2000 + 3000 + 4000 + 4 * 64);
    qn__team_destroy(team);
}

/* ---- records while others look and reset ---- */

enum { RECORDERS = 3, RECORDS = 20000 };

typedef struct round {
    qn_metrics taken; /* the sum of all that was taken */
    _Atomic int n_recording;
} round;

static void add_up(qn_metrics *sum, const qn_metrics *m)
{
    sum->kernel_tasks += m->kernel_tasks;
    sum->compute_ns += m->compute_ns;
    sum->sample.count += m->sample.count;
    sum->sample.sum_ns += m->sample.sum_ns;
    for (int i = 0; i < QN_HISTOGRAM_BUCKETS; i++) sum->sample.bucket[i] += m->sample.bucket[i];
}

/* Member 0 takes as long as others record. */
static void record_and_take(void *ctx, int member, int n_members)
{
    round *r = ctx;
    (void)n_members;
    if (member > 0) {
        for (int i = 0; i < RECORDS; i++) {
            QN_COUNT(kernel_tasks, 1);
            QN_COUNT(compute_ns, 3);
            QN_OBSERVE(sample, (uint64_t)(member == 1 ? 900 : member == 2 ? 5000 : 70000000000));
        }
        atomic_fetch_sub(&r->n_recording, 1);
        return;
    }
    while (atomic_load(&r->n_recording) > 0) {
        qn_metrics m;
        qn_metrics_take(&m);
        add_up(&r->taken, &m);
        qn_metrics_snapshot(&m);
    }
}

static void take_loses_nothing(void **state)
{
    (void)state;
    round r = {.n_recording = RECORDERS};
    qn_team *team;
    qn_metrics m;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 1 + RECORDERS}, &team, NULL), QN_OK);
    qn_metrics_reset();
    qn__team_run(team, record_and_take, &r);
    qn_metrics_take(&m);
    add_up(&r.taken, &m);
    assert_int_equal(r.taken.kernel_tasks, RECORDERS * RECORDS);
    assert_int_equal(r.taken.compute_ns, 3 * RECORDERS * RECORDS);
    assert_int_equal(r.taken.sample.count, RECORDERS * RECORDS);
    assert_int_equal(r.taken.sample.sum_ns, (uint64_t)RECORDS * (900 + 5000 + 70000000000));
    assert_int_equal(r.taken.sample.bucket[0], RECORDS);
    assert_int_equal(r.taken.sample.bucket[3], RECORDS);
    assert_int_equal(r.taken.sample.bucket[QN_HISTOGRAM_BUCKETS - 1], RECORDS);
    qn_metrics_snapshot(&m);
    assert_int_equal(m.kernel_tasks, 0);
    assert_int_equal(m.sample.count, 0);
    qn__team_destroy(team);
}

static void *one_record(void *shard)
{
    QN_COUNT(kernel_tasks, 1);
    *(int *)shard = qn__metric_shard_of_thread();
    return NULL;
}

/* What threads counted stays when they are gone; who comes next takes their places, not new ones. */
static void threads_come_and_go(void **state)
{
    (void)state;
    int shards[3 * QN_METRIC_SHARDS];
    qn_metrics_reset();
    for (int i = 0; i < 3 * QN_METRIC_SHARDS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, one_record, &shards[i]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(shards[i] > 0);
        assert_int_equal(shards[i], shards[0]);
    }
    assert_int_equal(QN_METRIC_READ(kernel_tasks), 3 * QN_METRIC_SHARDS);
}

typedef struct crowd {
    pthread_barrier_t barrier;
    int shard[QN_METRIC_SHARDS + 8];
    _Atomic int next;
} crowd;

static void *one_of_many(void *ctx)
{
    crowd *c = ctx;
    c->shard[atomic_fetch_add(&c->next, 1)] = qn__metric_shard_of_thread();
    pthread_barrier_wait(&c->barrier);
    for (int i = 0; i < 200; i++) QN_COUNT(kernel_tasks, 1);
    return NULL;
}

/* More threads than shards: the rest share one, and nothing is lost there either. */
static void more_threads_than_shards(void **state)
{
    (void)state;
    enum { N = QN_METRIC_SHARDS + 8 };
    crowd c = {.next = 0};
    pthread_t threads[N];
    int uses[QN_METRIC_SHARDS + 1] = {0};
    qn_metrics_reset();
    assert_int_equal(pthread_barrier_init(&c.barrier, NULL, N), 0);
    for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&threads[i], NULL, one_of_many, &c), 0);
    for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < N; i++) uses[c.shard[i]]++;
    for (int i = 1; i <= QN_METRIC_SHARDS; i++) assert_true(uses[i] <= 1);
    assert_true(uses[0] >= 8);
    assert_int_equal(QN_METRIC_READ(kernel_tasks), 200 * N);
    pthread_barrier_destroy(&c.barrier);
}

/* Each bucket begins where the one before it ends. */
static void buckets(void **state)
{
    (void)state;
    assert_int_equal(qn__bucket_of(0), 0);
    for (int i = 0; i + 1 < QN_HISTOGRAM_BUCKETS; i++) {
        const uint64_t end = UINT64_C(1000) << i;
        assert_int_equal(qn__bucket_of(end), i);
        assert_int_equal(qn__bucket_of(end + 1), i + 1);
    }
    assert_int_equal(qn__bucket_of(UINT64_MAX), QN_HISTOGRAM_BUCKETS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reset_spares_gauges),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(peak_never_under_live),
        cmocka_unit_test(take_loses_nothing),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(more_threads_than_shards),
        cmocka_unit_test(buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
