/* SPDX-License-Identifier: MIT */
/* bench/team.c -- what working together costs: a barrier, a round of shared work (every member asks until nothing is
 * left, then a barrier), and starting and ending a team's run. Prints median nanoseconds for 1, 2 .. threads; more than
 * the machine's cores make no sense here. */
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>

enum { TIMES = 1000, ROUNDS = 101 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct work {
    qn_team *team;
} work;

static void nothing(void *ctx, int member, int n_members)
{
    (void)ctx;
    (void)member;
    (void)n_members;
}

static void barriers(void *ctx, int member, int n_members)
{
    const work *w = ctx;
    (void)member;
    (void)n_members;
    for (int i = 0; i < TIMES; i++) qn__team_barrier(w->team);
}

static void rounds(void *ctx, int member, int n_members)
{
    const work *w = ctx;
    int64_t begin, end;
    (void)member;
    for (int i = 0; i < TIMES; i++) {
        while (qn__team_next(w->team, 2 * n_members, 1, &begin, &end)) {}
        qn__team_barrier(w->team);
    }
}

/* Nanoseconds of one of `times` in fn. */
static double median_ns(qn_team *team, qn_team_fn fn, int runs, int times)
{
    static double ns[ROUNDS];
    work w = {team};
    for (int r = 0; r < ROUNDS; r++) {
        const int64_t start = qn__now_ns();
        for (int i = 0; i < runs; i++) qn__team_run(team, fn, &w);
        ns[r] = (double)(qn__now_ns() - start) / times;
    }
    qsort(ns, ROUNDS, sizeof(ns[0]), by_value);
    return ns[ROUNDS / 2];
}

int main(void)
{
    const int most = qn__default_threads();
    printf("threads   barrier ns   shared round ns   run ns\n");
    for (int n = 1; n <= most; n++) {
        qn_team *team;
        qn_error err;
        if (qn__team_create(&(qn_team_options){.n_threads = n}, &team, &err) != QN_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        printf("%7d   %10.0f   %15.0f   %6.0f\n", n, median_ns(team, barriers, 1, TIMES),
               median_ns(team, rounds, 1, TIMES), median_ns(team, nothing, TIMES, TIMES));
        qn__team_destroy(team);
    }
    return 0;
}
