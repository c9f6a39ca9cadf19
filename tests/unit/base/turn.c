/* SPDX-License-Identifier: MIT */
/* tests/unit/base/turn.c -- turns: one taker at a time, the one that has had least of those who wait, and no claim for
 * who was away. */
#include "base/thread.h"
#include "failing.h"
#include <pthread.h>
#include <sched.h>

static qn_turns turns;
static int order[8], n_order; /* plain: only who has the turn writes */

typedef struct job {
    pthread_t thread;
    qn_turn_taker taker;
    int number;
} job;

static void *take_one(void *arg)
{
    job *j = arg;
    qn__turns_take(&turns, &j->taker);
    order[n_order++] = j->number;
    qn__turns_give(&turns, &j->taker);
    return NULL;
}

static int n_waiting(void)
{
    struct head {
        struct head *next; /* first member of a waiter */
    };
    int n = 0;
    qn__mutex_lock(&turns.lock);
    for (const struct head *w = (const struct head *)turns.waiting; w; w = w->next) n++;
    qn__mutex_unlock(&turns.lock);
    return n;
}

static void least_first(void **state)
{
    (void)state;
    const int64_t hour = INT64_C(3600) * 1000000000;
    static const int hours[] = {4, 2, 5, 2, 3}; /* ties: who came first */
    job jobs[5];
    qn_turn_taker me = {0};
    qn__turns_init(&turns);
    n_order = 0;
    assert_false(qn__turns_shared(&turns, &me));
    qn__turns_take(&turns, &me);
    assert_false(qn__turns_shared(&turns, &me));
    for (int i = 0; i < 5; i++) {
        jobs[i] = (job){.number = i, .taker = {hours[i] * hour}};
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, take_one, &jobs[i]), 0);
        while (n_waiting() <= i) sched_yield();
    }
    assert_true(qn__turns_shared(&turns, &me));
    qn__turns_give(&turns, &me);
    for (int i = 0; i < 5; i++) pthread_join(jobs[i].thread, NULL);
    static const int want[] = {1, 3, 4, 0, 2};
    assert_memory_equal(order, want, sizeof want);
    assert_true(me.used_ns > 0 && me.used_ns < hour);
    /* me was away while others computed for hours: what they have had counts as mine */
    qn__turns_take(&turns, &me);
    qn__turns_give(&turns, &me);
    assert_true(me.used_ns >= 5 * hour);
    qn_turn_taker other = {0};
    assert_true(qn__turns_try(&turns, &other) && !qn__turns_try(&turns, &me));
    qn__turns_give(&turns, &other);
    assert_true(other.used_ns >= 5 * hour && qn__turns_try(&turns, &me));
    qn__turns_give(&turns, &me);
    qn__turns_forget(&turns, &other);
    for (int i = 0; i < 5; i++) qn__turns_forget(&turns, &jobs[i].taker);
    qn__turns_deinit(&turns);
}

/* Whoever takes turns with himself is alone; with another thread he is not. */
static void shared_by_threads(void **state)
{
    (void)state;
    qn_turn_taker mine[2] = {{0}};
    job other = {0};
    qn__turns_init(&turns);
    n_order = 0;
    for (int i = 0; i < 4; i++) {
        qn__turns_take(&turns, &mine[i % 2]);
        qn__turns_give(&turns, &mine[i % 2]);
        assert_true(qn__turns_try(&turns, &mine[(i + 1) % 2]));
        qn__turns_give(&turns, &mine[(i + 1) % 2]);
    }
    assert_false(qn__turns_shared(&turns, &mine[0]));
    assert_int_equal(pthread_create(&other.thread, NULL, take_one, &other), 0);
    pthread_join(other.thread, NULL);
    assert_true(qn__turns_shared(&turns, &mine[0]));
    qn__turns_forget(&turns, &other.taker);
    assert_false(qn__turns_shared(&turns, &mine[0]));
    /* one that waited is another thread, whoever hands it over */
    qn__turns_take(&turns, &mine[0]);
    assert_int_equal(pthread_create(&other.thread, NULL, take_one, &other), 0);
    while (n_waiting() == 0) sched_yield();
    qn__turns_give(&turns, &mine[0]);
    pthread_join(other.thread, NULL);
    assert_true(qn__turns_shared(&turns, &mine[0]));
    qn__turns_deinit(&turns);
}

enum { TAKERS = 4, TIMES = 200 };
static int64_t sum; /* plain */

static void *take_many(void *arg)
{
    job *j = arg;
    for (int i = 0; i < TIMES; i++) {
        qn__turns_take(&turns, &j->taker);
        sum += j->number;
        if (i % 16 == 0) sched_yield();
        qn__turns_give(&turns, &j->taker);
    }
    return NULL;
}

static void one_at_a_time(void **state)
{
    (void)state;
    job jobs[TAKERS];
    sum = 0;
    qn__turns_init(&turns);
    for (int i = 0; i < TAKERS; i++) {
        jobs[i] = (job){.number = i + 1};
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, take_many, &jobs[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++) pthread_join(jobs[i].thread, NULL);
    assert_int_equal(sum, TIMES * (1 + 2 + 3 + 4));
    assert_false(turns.taken);
    qn__turns_deinit(&turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(least_first), cmocka_unit_test(shared_by_threads),
                                       cmocka_unit_test(one_at_a_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
