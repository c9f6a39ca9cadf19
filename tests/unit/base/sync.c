/* SPDX-License-Identifier: MIT */
/* tests/unit/base/sync.c -- mutex, once, clock, worker. */
#include "base/thread.h"
#include "failing.h"
#include <unistd.h>

static qn_team *make(int n)
{
    qn_team *team = NULL;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = n}, &team, NULL), QN_OK);
    return team;
}

typedef struct counter {
    qn_mutex mutex;
    long n;
} counter;

static void count(void *ctx, int member, int n_members)
{
    (void)member, (void)n_members;
    counter *c = ctx;
    for (int i = 0; i < 5000; i++) {
        qn__mutex_lock(&c->mutex);
        c->n++; /* plain */
        qn__mutex_unlock(&c->mutex);
    }
}

static void mutex_excludes(void **state)
{
    (void)state;
    counter c = {.n = 0};
    qn_team *team = make(4);
    qn__mutex_init(&c.mutex);
    qn__team_run(team, count, &c);
    assert_int_equal(c.n, 20000);
    qn__mutex_deinit(&c.mutex);
    qn__team_destroy(team);
}

static qn_once once;
static int made; /* plain: once must order it */
static _Atomic int n_calls;

static void make_it(void)
{
    usleep(20000); /* so that the others really wait */
    made = 42;
    n_calls++;
}

static void use_it(void *ctx, int member, int n_members)
{
    (void)n_members;
    qn__once(&once, make_it);
    ((int *)ctx)[member] = made;
}

static void once_is_once(void **state)
{
    (void)state;
    int seen[8] = {0};
    qn_team *team = make(8);
    for (int round = 0; round < 3; round++) qn__team_run(team, use_it, seen);
    for (int i = 0; i < 8; i++) assert_int_equal(seen[i], 42);
    assert_int_equal(n_calls, 1);
    qn__team_destroy(team);
}

static void clock_runs_forward(void **state)
{
    (void)state;
    const int64_t a = qn__now_ns();
    usleep(5000);
    const int64_t b = qn__now_ns();
    assert_true(b - a >= 5000000 && b - a < INT64_C(60000000000));
}

typedef struct job {
    long value;
    int delay_us;
    qn_worker *worker;
    qn_status inner;
} job;

static void work(void *ctx)
{
    job *j = ctx;
    usleep((unsigned)j->delay_us);
    j->value++; /* plain: wait must order it */
    if (j->worker != NULL) j->inner = qn__worker_submit(j->worker, work, j, NULL);
}

static void worker_works(void **state)
{
    (void)state;
    qn_worker *w;
    qn_error err;
    assert_int_equal(qn__worker_create(&w, &err), QN_OK);
    qn__worker_wait(w); /* nothing to wait for */
    job j = {0};
    for (int i = 1; i <= 200; i++) {
        assert_int_equal(qn__worker_submit(w, work, &j, &err), QN_OK);
        qn__worker_wait(w);
        assert_int_equal(j.value, i);
    }
    job slow = {.delay_us = 30000};
    assert_int_equal(qn__worker_submit(w, work, &slow, &err), QN_OK);
    assert_int_equal(qn__worker_submit(w, work, &j, &err), QN_STATUS_state);
    assert_non_null(strstr(err.text, "still has a job"));
    qn__worker_wait(w);
    assert_int_equal(slow.value, 1);
    assert_int_equal(j.value, 200); /* the refused one never ran */

    job self = {.worker = w};
    assert_int_equal(qn__worker_submit(w, work, &self, &err), QN_OK);
    qn__worker_wait(w);
    assert_int_equal(self.inner, QN_STATUS_state); /* a job is pending until it returns */

    slow.value = 0;
    assert_int_equal(qn__worker_submit(w, work, &slow, &err), QN_OK);
    qn__worker_destroy(w); /* waits for the job */
    assert_int_equal(slow.value, 1);
    qn__worker_destroy(NULL);
}

static void worker_memory(void **state)
{
    (void)state;
    qn_worker *w = (void *)1;
    books_open(0);
    assert_int_equal(qn__worker_create(&w, NULL), QN_STATUS_nomem);
    assert_ptr_equal(w, (void *)1);
    books_close();
    books_open(-1);
    assert_int_equal(qn__worker_create(&w, NULL), QN_OK);
    const long n = books.n_alloc;
    job j = {0};
    assert_int_equal(qn__worker_submit(w, work, &j, NULL), QN_OK);
    qn__worker_destroy(w);
    assert_int_equal(books.n_alloc, n);
    books_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutex_excludes), cmocka_unit_test(once_is_once),  cmocka_unit_test(clock_runs_forward),
        cmocka_unit_test(worker_works),   cmocka_unit_test(worker_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
