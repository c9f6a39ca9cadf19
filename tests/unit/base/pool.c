/* SPDX-License-Identifier: MIT */
/* tests/unit/base/pool.c -- the threads of the process: users of several sizes share one team, one at a time, each with
 * the members that it asked for; and the team ends with the last of them. */
#include "base/metrics.h"
#include "base/thread.h"
#include "failing.h"
#include <pthread.h>

enum { MOST = 6 };

static qn_pool_user *join(int n)
{
    qn_pool_user *user = NULL;
    qn_error err;
    assert_int_equal(qn__pool_join(n, &user, &err), QN_OK);
    assert_int_equal(qn__pool_size(user), n);
    return user;
}

typedef struct work {
    qn_pool_user *user;
    int64_t cell[MOST]; /* plain: run and barriers must order them */
    _Atomic int n_wrong;
    int64_t sum;
} work;

static int64_t shared; /* plain: users run one at a time */

static void phases(void *ctx, int member, int n_members)
{
    work *w = ctx;
    qn_team *team = qn__pool_team(w->user);
    for (int phase = 1; phase <= 5; phase++) {
        w->cell[member] = phase * 1000 + member;
        qn__team_barrier(team);
        for (int i = 0; i < n_members; i++)
            if (w->cell[i] != phase * 1000 + i) w->n_wrong++;
        qn__team_barrier(team);
    }
    if (member == 0) w->sum = 0;
    qn__team_barrier(team);
    for (int64_t begin, end; qn__team_next(team, 40, 3, &begin, &end);)
        for (; begin < end; begin++) __atomic_fetch_add(&w->sum, begin, __ATOMIC_RELAXED);
    qn__team_barrier(team);
    if (member == 0 && n_members > 1) shared++; /* a user of one thread takes no turn */
}

static void sizes_in_turn(void **state)
{
    (void)state;
    static const int sizes[] = {2, 4, 1, 3, 6, 2, 5, 1};
    enum { N = sizeof sizes / sizeof sizes[0] };
    work w[N] = {{0}};
    for (int i = 0; i < N; i++) w[i].user = join(sizes[i]); /* the team grows on the way */
    for (int round = 0; round < 30; round++)
        for (int i = 0; i < N; i++) {
            work *one = &w[(i * 5 + round) % N];
            qn__pool_run(one->user, phases, one);
            assert_int_equal(one->n_wrong, 0);
            assert_int_equal(one->sum, 40 * 39 / 2);
        }
    assert_ptr_equal(qn__pool_team(w[0].user), qn__pool_team(w[4].user)); /* one for all */
    for (int i = 0; i < N; i++) qn__pool_leave(w[i].user);
    qn__pool_leave(NULL);
}

static void *runs(void *arg)
{
    work *w = arg;
    for (int i = 0; i < 60; i++) qn__pool_run(w->user, phases, w);
    return NULL;
}

static void users_in_threads(void **state)
{
    (void)state;
    enum { N = 4 };
    work w[N] = {{0}};
    pthread_t threads[N];
    shared = 0;
    for (int i = 0; i < N; i++) w[i].user = join(1 + i);
    for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&threads[i], NULL, runs, &w[i]), 0);
    qn_pool_user *late = join(MOST); /* while the others run */
    for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < N; i++) {
        assert_int_equal(w[i].n_wrong, 0);
        qn__pool_leave(w[i].user);
    }
    qn__pool_leave(late);
    assert_int_equal(shared, (N - 1) * 60);
}

typedef struct nest {
    qn_pool_user *outer, *inner;
    work w[MOST];
    _Atomic int n_wrong;
} nest;

/* Every member computes something of its own; none of it disturbs the run. */
static void run_inside(void *ctx, int member, int n_members)
{
    nest *n = ctx;
    qn_team *team = qn__pool_team(n->outer);
    qn_pool_user *user = NULL;
    qn_error err;
    qn__team_barrier(team);
    if (member == 1) {
        n->w[0] = (work){.user = n->inner};
        qn__pool_run(n->inner, phases, &n->w[0]);
        n->n_wrong += n->w[0].n_wrong || n->w[0].sum != 40 * 39 / 2;
        n->n_wrong += qn__pool_join(MOST, &user, &err) != QN_STATUS_state || !strstr(err.text, "6 threads, of which 3");
        n->n_wrong += qn__pool_join(n_members, &user, &err) != QN_OK;
        n->w[1] = (work){.user = user};
        qn__pool_run(user, phases, &n->w[1]);
        n->n_wrong += n->w[1].n_wrong || n->w[1].sum != 40 * 39 / 2;
        qn__pool_leave(user);
    }
    n->n_wrong += qn__pool_team(n->outer) != team;
    qn__team_barrier(team);
}

static void inside_of_a_run(void **state)
{
    (void)state;
    nest n = {.outer = join(3), .inner = join(2)};
    for (int i = 0; i < 20; i++) qn__pool_run(n.outer, run_inside, &n);
    assert_int_equal(n.n_wrong, 0);
    n.w[0] = (work){.user = n.inner};
    qn__pool_run(n.inner, phases, &n.w[0]); /* on the team again */
    assert_int_equal(n.w[0].sum, 40 * 39 / 2);
    assert_int_equal(n.w[0].cell[1], 5001);
    qn__pool_leave(n.outer);
    qn__pool_leave(n.inner);
}

static void bad_numbers(void **state)
{
    (void)state;
    qn_pool_user *user = (void *)1;
    qn_error err;
    assert_int_equal(qn__pool_join(-1, &user, &err), QN_STATUS_invalid);
    assert_string_equal(err.text, "-1 threads were asked for, 1 to 256 are possible");
    assert_int_equal(qn__pool_join(QN_MAX_THREADS + 1, &user, NULL), QN_STATUS_invalid);
    assert_ptr_equal(user, (void *)1);
    assert_int_equal(qn__pool_join(0, &user, &err), QN_OK);
    assert_int_equal(qn__pool_size(user), qn__default_threads());
    qn__pool_leave(user);
}

/* The n-th allocation fails; what is left is nothing, and a run allocates nothing. */
static void memory(void **state)
{
    (void)state;
    qn_error err;
    qn_pool_user *user;
    for (int n = 0; n < 3; n++) {
        books_open(n);
        assert_int_equal(qn__pool_join(3, &user, &err), QN_STATUS_nomem);
        assert_non_null(strstr(err.text, "out of memory"));
        books_close();
    }
    books_open(-1);
    user = join(3);
    const long n = books.n_alloc;
    work w = {.user = user};
    qn__pool_run(user, phases, &w);
    assert_int_equal(books.n_alloc, n);
    assert_false(qn__pool_shared(user));
    qn__pool_leave(user);
    books_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_in_turn), cmocka_unit_test(users_in_threads),
                                       cmocka_unit_test(inside_of_a_run), cmocka_unit_test(bad_numbers),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
