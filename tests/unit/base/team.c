/* SPDX-License-Identifier: MIT */
/* tests/unit/base/team.c -- teams of 1 to 8 members on however few cores: every member runs once, nobody leaves a
 * barrier early, plain memory written before it is read after it (ThreadSanitizer watches), every element is handed out
 * once. */
#include "base/metrics.h"
#include "base/thread.h"
#include "failing.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define MAX_MEMBERS 8
static const int spins[] = {0, -1, 1, 200}; /* default, park at once, next to nothing, long */

static qn_team *make(int n, int spin_us)
{
    qn_team *team = NULL;
    qn_error err;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = n, .spin_us = spin_us}, &team, &err), QN_OK);
    assert_int_equal(qn__team_size(team), n);
    return team;
}

static void mark(void *ctx, int member, int n_members)
{
    int *ran = ctx; /* plain ints: the run itself must order them */
    ran[member] += n_members;
}

static void everyone_runs_once(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_MEMBERS; n++) {
        for (size_t s = 0; s < ARRAY_LEN(spins); s++) {
            qn_team *team = make(n, spins[s]);
            int ran[MAX_MEMBERS] = {0};
            for (int run = 1; run <= 100; run++) {
                qn__team_run(team, mark, ran);
                for (int i = 0; i < n; i++) assert_int_equal(ran[i], run * n);
            }
            qn__team_destroy(team);
        }
    }
}

typedef struct phases {
    qn_team *team;
    int n_phases;
    int64_t cell[MAX_MEMBERS]; /* plain */
    _Atomic int n_wrong;
} phases;

/* Each phase, everyone writes its own cell and, after a barrier, checks everyone's; a second barrier before the next
 * write. */
static void phase_walk(void *ctx, int member, int n_members)
{
    phases *p = ctx;
    for (int phase = 1; phase <= p->n_phases; phase++) {
        p->cell[member] = phase * 1000 + member;
        qn__team_barrier(p->team);
        for (int i = 0; i < n_members; i++) {
            if (p->cell[i] != phase * 1000 + i) p->n_wrong++;
        }
        qn__team_barrier(p->team);
    }
}

static void barrier_stress(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_MEMBERS; n++) {
        for (size_t s = 0; s < ARRAY_LEN(spins); s++) {
            phases p = {.team = make(n, spins[s]), .n_phases = 150};
            for (int run = 0; run < 3; run++) qn__team_run(p.team, phase_walk, &p);
            assert_int_equal(p.n_wrong, 0);
            qn__team_destroy(p.team);
        }
    }
}

enum { TOTAL = 997 };
typedef struct sharing {
    qn_team *team;
    int64_t total, chunk;
    uint8_t taken[4][TOTAL]; /* one row a phase; plain, because nobody else may get the same element */
    int64_t largest[MAX_MEMBERS];
} sharing;

static void share(void *ctx, int member, int n_members)
{
    (void)n_members;
    sharing *s = ctx;
    for (int phase = 0; phase < 4; phase++) {
        int64_t begin = -1, end = -1;
        while (qn__team_next(s->team, s->total, s->chunk, &begin, &end)) {
            if (begin < 0 || end <= begin || end > s->total) abort();
            if (end - begin > s->largest[member]) s->largest[member] = end - begin;
            for (int64_t i = begin; i < end; i++) s->taken[phase][i]++;
        }
        if (qn__team_next(s->team, s->total, s->chunk, &begin, &end)) abort(); /* drained stays drained */
        qn__team_barrier(s->team);
    }
}

static void check_sharing(int n, int64_t total, int64_t chunk)
{
    static sharing s;
    s = (sharing){.team = make(n, 0), .total = total, .chunk = chunk};
    for (int run = 1; run <= 3; run++) {
        qn__team_run(s.team, share, &s);
        for (int phase = 0; phase < 4; phase++) {
            for (int64_t i = 0; i < total; i++) assert_int_equal(s.taken[phase][i], run);
        }
    }
    qn__team_destroy(s.team);
}

static void every_element_once(void **state)
{
    (void)state;
    static const int64_t chunks[] = {1, 7, 64, TOTAL, 100000, INT64_MAX, 0, -5};
    for (int n = 1; n <= MAX_MEMBERS; n += 1 + n / 3) {
        for (size_t c = 0; c < ARRAY_LEN(chunks); c++) {
            check_sharing(n, TOTAL, chunks[c]);
            check_sharing(n, 1, chunks[c]);
            check_sharing(n, 0, chunks[c]);
        }
    }
}

#ifdef QN_CHECKED
typedef struct cuts {
    qn_team *team;
    int64_t ends[TOTAL];
    int n;
} cuts;

static void record_cuts(void *ctx, int member, int n_members)
{
    (void)member, (void)n_members;
    cuts *c = ctx;
    int64_t begin, end;
    while (qn__team_next(c->team, TOTAL, 8, &begin, &end)) c->ends[c->n++] = end;
}

static void hostile_cuts(void **state)
{
    (void)state;
    cuts a = {.team = make(1, 0)}, b = {.team = a.team}, c = {.team = a.team};
    qn__team_hostile = 1;
    for (int n = 1; n <= MAX_MEMBERS; n += 3) check_sharing(n, TOTAL, 8); /* still everything, still once */
    qn__team_run(a.team, record_cuts, &a);
    qn__team_run(a.team, record_cuts, &b);
    assert_int_equal(a.n, b.n); /* a seed repeats */
    assert_memory_equal(a.ends, b.ends, sizeof a.ends);
    qn__team_hostile = 2;
    qn__team_run(a.team, record_cuts, &c);
    assert_true(c.n != a.n || memcmp(a.ends, c.ends, sizeof a.ends) != 0); /* another cuts elsewhere */
    int64_t longest = 0, at = 0;
    bool off_grid = false;
    for (int i = 0; i < a.n; i++) {
        if (a.ends[i] - at > longest) longest = a.ends[i] - at;
        at = a.ends[i];
        off_grid |= at % 8 != 0 && at != TOTAL;
    }
    assert_true(off_grid && longest > 8 && longest <= 16);
    qn__team_hostile = 0;
    qn__team_destroy(a.team);
}
#endif

static void bad_options(void **state)
{
    (void)state;
    qn_team *team = (void *)1;
    qn_error err;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = -1}, &team, &err), QN_STATUS_invalid);
    assert_string_equal(err.text, "-1 threads were asked for, 1 to 256 are possible");
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = QN_MAX_THREADS + 1}, &team, NULL),
                     QN_STATUS_invalid);
    assert_ptr_equal(team, (void *)1);
    qn__team_destroy(NULL);
    assert_int_equal(qn__team_create(NULL, &team, &err), QN_OK);
    assert_int_equal(qn__team_size(team), qn__default_threads());
    qn__team_destroy(team);
}

static void memory(void **state)
{
    (void)state;
    qn_error err;
    qn_team *team;
    books_open(0);
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 4}, &team, &err), QN_STATUS_nomem);
    assert_non_null(strstr(err.text, "out of memory"));
    books_close();
    books_open(-1);
    team = make(4, 0);
    const long n = books.n_alloc;
    phases p = {.team = team, .n_phases = 20};
    qn__team_run(team, phase_walk, &p);
    assert_int_equal(books.n_alloc, n); /* no call after create allocates */
    qn__team_destroy(team);
    books_close();
}

/* Threads that cannot start: the ones that could are stopped again, and the message says how far it came. */
static void too_many_threads(void **state)
{
    (void)state;
    books_open(-1);
    enum { TEAMS = 400 };
    static qn_team *teams[TEAMS];
    qn_error err;
    int n = 0;
    pthread_attr_t attr, old;
    pthread_getattr_default_np(&old);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, (size_t)1 << 46); /* 64 TiB of stack: two don't fit into 47 bits */
    if (pthread_setattr_default_np(&attr) != 0) skip();
    qn_status status = QN_OK;
    while (n < TEAMS && (status = qn__team_create(&(qn_team_options){.n_threads = 8}, &teams[n], &err)) == QN_OK) n++;
    pthread_setattr_default_np(&old);
    pthread_attr_destroy(&attr);
    pthread_attr_destroy(&old);
    while (n > 0) qn__team_destroy(teams[--n]);
    assert_int_equal(status, QN_STATUS_limit);
    assert_non_null(strstr(err.text, "cannot start thread "));
    assert_non_null(strstr(err.text, " of 8: "));
    books_close();
}

static void check_mask(void *ctx, int member, int n_members)
{
    (void)n_members;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    ((int *)ctx)[member] = sigismember(&now, SIGINT);
}

/* A Ctrl-C goes to the program's own thread, not to one of ours. */
static void signals_are_not_ours(void **state)
{
    (void)state;
    qn_team *team = make(3, 0);
    int blocked[3] = {-1, -1, -1};
    qn__team_run(team, check_mask, blocked);
    assert_int_equal(blocked[0], 0);
    assert_int_equal(blocked[1], 1);
    assert_int_equal(blocked[2], 1);
    qn__team_destroy(team);
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void idle_team_sleeps(void **state)
{
    (void)state;
    qn_team *team = make(4, 0);
    int ran[MAX_MEMBERS] = {0};
    qn__team_run(team, mark, ran);
    usleep(20000); /* longer than any spin */
    const int64_t before = cpu_ns();
    usleep(200000);
    assert_true(cpu_ns() - before < 20000000); /* a tenth of one core would be 20 ms */
    qn__team_run(team, mark, ran);             /* and wakes again */
    assert_int_equal(ran[3], 8);
    qn__team_destroy(team);
}

static void create_and_destroy(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) qn__team_destroy(make(1 + i % MAX_MEMBERS, spins[i % 4]));
}

static void small_run(void *ctx, int member, int n_members)
{
    (void)member, (void)n_members;
    int ran[MAX_MEMBERS] = {0};
    qn_team *inner = make(2, 0);
    qn__team_run(inner, mark, ran);
    qn__team_destroy(inner);
    (*(_Atomic int *)ctx) += ran[0] + ran[1];
}

/* Teams are independent: one may be made and run inside another's run. */
static void nested_teams(void **state)
{
    (void)state;
    _Atomic int sum = 0;
    qn_team *team = make(4, 0);
    qn__team_run(team, small_run, &sum);
    assert_int_equal(sum, 16);
    qn__team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everyone_runs_once), cmocka_unit_test(barrier_stress),
        cmocka_unit_test(every_element_once),
#ifdef QN_CHECKED
        cmocka_unit_test(hostile_cuts),
#endif
        cmocka_unit_test(bad_options),        cmocka_unit_test(memory),
        cmocka_unit_test(too_many_threads),   cmocka_unit_test(signals_are_not_ours),
        cmocka_unit_test(idle_team_sleeps),   cmocka_unit_test(create_and_destroy),
        cmocka_unit_test(nested_teams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
