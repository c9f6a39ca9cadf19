/* SPDX-License-Identifier: MIT */
/* bench/streams.c -- how fast threads read memory in one sequential stream or in several at a time, each in a part of a
 * megabyte of its own, and whether prefetching in each helps: what decides how a level's kernels of few columns should
 * walk through a weight (src/cpu/kernel/gemv_streams.h). build/bench_streams [THREADS] [MIB] */
#include "base/thread.h"
#include "cpu/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PART = 1 << 20, RUNS = 5, LINE = 64 };
static const int streams[] = {1, 2, 4, 8, 16}, ahead[] = {0, 512, 1024, 4096};
enum { N_STREAMS = sizeof streams / sizeof streams[0], N_AHEAD = sizeof ahead / sizeof ahead[0] };

typedef struct job {
    const uint8_t *memory;
    int64_t bytes;
    int n_streams, ahead;
    double rate[QN_MAX_THREADS]; /* GB/s, of the best run */
    uint64_t seen[QN_MAX_THREADS];
} job;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t read_part(const uint8_t *p, const job *j)
{
    const int64_t each = PART / j->n_streams;
    uint64_t sum = 0, word;
    for (int64_t at = 0; at < each; at += LINE)
        for (int s = 0; s < j->n_streams; s++) {
            const uint8_t *line = p + s * each + at;
            if (j->ahead) __builtin_prefetch(line + j->ahead);
            memcpy(&word, line, sizeof word);
            sum ^= word;
        }
    return sum;
}

static void member(void *ctx, int id, int n)
{
    job *j = ctx;
    const int64_t share = j->bytes / n / PART * PART;
    for (int run = 0; run < RUNS; run++) {
        const double start = now();
        for (int64_t at = 0; at < share; at += PART) j->seen[id] ^= read_part(j->memory + id * share + at, j);
        const double rate = (double)share / (now() - start) * 1e-9;
        if (rate > j->rate[id]) j->rate[id] = rate;
    }
}

int main(int argc, char **argv)
{
    qn_team *team = NULL;
    qn_error err;
    const int64_t bytes = (argc > 2 ? atoll(argv[2]) : 512) << 20;
    uint8_t *memory = bytes > 0 ? malloc((size_t)bytes + PART) : NULL;
    if (!memory || qn__team_create(&(qn_team_options){.n_threads = argc > 1 ? atoi(argv[1]) : 0}, &team, &err) != QN_OK)
        return 1;
    memset(memory, 1, (size_t)bytes + PART);
    printf("GB/s of %d threads  no prefetch", qn__team_size(team));
    for (int a = 1; a < N_AHEAD; a++) printf("  %4d bytes ahead", ahead[a]);
    for (int s = 0; s < N_STREAMS; s++) {
        printf("\n%2d streams of a thread", streams[s]);
        for (int a = 0; a < N_AHEAD; a++) {
            job j = {.memory = memory, .bytes = bytes, .n_streams = streams[s], .ahead = ahead[a]};
            double sum = 0;
            qn__team_run(team, member, &j);
            for (int i = 0; i < qn__team_size(team); i++) sum += j.rate[i];
            printf(a ? "%18.1f" : "%10.1f", sum);
            fflush(stdout);
        }
    }
    putchar('\n');
    qn__team_destroy(team);
    free(memory);
    return 0;
}
