/* SPDX-License-Identifier: MIT */
/* tests/unit/base/park.c -- parking on a word: no wake-up is lost in a game of ping-pong, and a stale value does not
 * sleep. */
#include "base/park.h"
#include "base/thread.h"
#include "failing.h"

enum { ROUNDS = 2000 };
typedef struct table {
    _Atomic int ball;
    int hits;
} table;

static void play(void *ctx, int member, int n_members)
{
    table *t = ctx;
    for (int i = 0; i < ROUNDS; i++) {
        int seen;
        while ((seen = atomic_load(&t->ball)) % n_members != member) qn__park(&t->ball, seen);
        t->hits++; /* plain: the ball orders it */
        atomic_store(&t->ball, seen + 1);
        qn__unpark_all(&t->ball);
    }
}

static void ping_pong(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        table t = {0};
        qn_team *team;
        assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = n}, &team, NULL), QN_OK);
        qn__team_run(team, play, &t);
        assert_int_equal(t.hits, n * ROUNDS);
        assert_int_equal(t.ball, n * ROUNDS);
        qn__team_destroy(team);
    }
}

static void stale_value_returns(void **state)
{
    (void)state;
    _Atomic int word = 5;
    qn__park(&word, 4); /* or this test never ends */
    qn__unpark_all(&word);
    assert_int_equal(word, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ping_pong), cmocka_unit_test(stale_value_returns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
