/* SPDX-License-Identifier: MIT */
/* bench/mm_gemv.c -- products with one column (decoding), weights from memory: GB/s of floats and every block format
 * that has a kernel, beside what plain reads of the same memory reach. Tiles of a few megabytes are read and
 * multiplied in turn, each member of the team on its own part; the processor time of a tile is what counts (lower
 * quartile), so that other programs on the machine disturb little.
 *
 *     bench_mm_gemv [k] [level] [MiB] [format ...]     k = 2048, the highest, 600 MiB, all; one table for one thread,
 * one for all */
#include "base/mem.h"
#include "base/thread.h"
#include "cpu/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TILE_BYTES = 4 << 20, TILES_MAX = 4096, CACHED_ROWS = 128 };

/* rows as neighbours, as streams of their own (kernel/gemv_streams.h), plain reads */
enum { WAY_gemv, WAY_streams, WAY_read, N_WAYS };

typedef struct job {
    const qn_kernels *kernels;
    qn_dtype dtype;
    uint8_t *w;
    int64_t bytes, k;
    float *column;
    void *x;
    float *y[QN_MAX_THREADS];
    double rate[N_WAYS][QN_MAX_THREADS], cached[QN_MAX_THREADS]; /* GB/s, by member */
    uint64_t seen[QN_MAX_THREADS];
} job;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quartile(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n > 0 ? v[n / 4] : 0;
}

static void product(const job *j, qn_mm_fn fn, const uint8_t *w, int64_t rows, float *y)
{
    static _Thread_local float tile[QN_MM_TILE_BYTES / 4] __attribute__((aligned(64)));
    const size_t row_bytes = (size_t)qn_dtype_row_bytes(j->dtype, j->k);
    const qn_mm_args args = {
        .w = w,
        .w_row_bytes = row_bytes,
        .x = j->x,
        .y = y,
        .y_stride = rows,
        .k = j->k,
        .rows = (int32_t)rows,
        .cols = 1,
        .tile = tile,
    };
    fn(&args);
}

static void member(void *ctx, int id, int n)
{
    job *j = ctx;
    static _Thread_local double took[N_WAYS][TILES_MAX];
    const qn_mm *mm = &j->kernels->mm[j->dtype];
    const int64_t row_bytes = qn_dtype_row_bytes(j->dtype, j->k), rows = TILE_BYTES / row_bytes,
                  tile = rows * row_bytes;
    const int64_t begin = j->bytes / n * id, end = begin + j->bytes / n;
    int n_took[N_WAYS] = {0};
    for (int round = 0; round < N_WAYS; round++) {
        int64_t i = round;
        for (int64_t at = begin; at + tile <= end && i < TILES_MAX; at += tile, i++) {
            const int way = (int)(i % N_WAYS);
            const double start = now();
            if (way == WAY_read)
                j->seen[id] ^= j->kernels->probe_read(j->w + at, tile / 8);
            else
                product(j, way == WAY_streams && mm->gemv_streams ? mm->gemv_streams : mm->gemv, j->w + at, rows,
                        j->y[id]);
            took[way][n_took[way]++] = now() - start;
        }
    }
    for (int way = 0; way < N_WAYS; way++) j->rate[way][id] = (double)tile / quartile(took[way], n_took[way]) * 1e-9;

    int n_cached;
    for (n_cached = 0; n_cached < 100; n_cached++) {
        const double start = now();
        product(j, mm->gemv, j->w + begin, CACHED_ROWS, j->y[id]);
        took[0][n_cached] = now() - start;
    }
    j->cached[id] = (double)(CACHED_ROWS * row_bytes) / quartile(took[0], n_cached) * 1e-9;
}

static double total(const double *v, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    return sum;
}

static void fill(void *ctx, int id, int n)
{
    job *j = ctx;
    const int64_t begin = j->bytes / n * id;
    memset(j->w + begin, 0x35, (size_t)(j->bytes / n));
}

static bool wanted(const char *name, int n, char **names)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return n <= 0;
}

static void table(job *j, int n_threads, int n_names, char **names)
{
    qn_team *team = NULL;
    qn_error err;
    if (qn__team_create(&(qn_team_options){.n_threads = n_threads}, &team, &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    n_threads = qn__team_size(team);
    qn__team_run(team, fill, j);
    printf("%d thread%s, k = %lld\n", n_threads, n_threads > 1 ? "s" : "", (long long)j->k);
    printf("%-8s %8s %8s %8s %6s %14s\n", "format", "GB/s", "streams", "read", "", "cached/thread");
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_act_kind act = j->kernels->mm[d].act;
        if (!j->kernels->mm[d].gemv ||
            (act == QN_ACT_f32 && d != QN_DTYPE_F32 && d != QN_DTYPE_F16 && d != QN_DTYPE_BF16))
            continue;
        if (!wanted(qn_dtype_get((qn_dtype)d)->name, n_names, names)) continue;
        j->dtype = (qn_dtype)d;
        qn__act_put(j->kernels, act, j->x, j->column, j->k);
        qn__team_run(team, member, j);
        const double gemv = total(j->rate[WAY_gemv], n_threads), streams = total(j->rate[WAY_streams], n_threads);
        const double read = total(j->rate[WAY_read], n_threads);
        printf("%-8s %8.2f %8.2f %8.2f %5.0f%% %14.2f\n", qn_dtype_get(j->dtype)->name, gemv, streams, read,
               100 * (gemv > streams ? gemv : streams) / read, total(j->cached, n_threads) / n_threads);
        fflush(stdout);
    }
    qn__team_destroy(team);
}

int main(int argc, char **argv)
{
    qn_cpu_level level = (qn_cpu_level)(QN_CPU_LEVEL_COUNT - 1);
    job *j = calloc(1, sizeof *j);
    j->k = argc > 1 ? atoll(argv[1]) / 256 * 256 : 2048;
    if (argc > 2 && !qn_cpu_level_find(argv[2], &level)) return 1;
    j->bytes = (argc > 3 ? atoll(argv[3]) : 600) << 20;
    j->kernels = qn__kernels_get(level);
    j->w = qn__alloc((size_t)j->bytes);
    j->x = calloc((size_t)j->k, 4);
    j->column = calloc((size_t)j->k, 4);
    for (int i = 0; i < QN_MAX_THREADS && i < 64; i++) j->y[i] = malloc(TILE_BYTES);
    if (!j->w || j->k <= 0) return 1;
    for (int64_t i = 0; i < j->k; i++) j->column[i] = (float)(i % 37 - 11);
    table(j, 1, argc - 4, argv + 4);
    if (!getenv("ONE_THREAD")) table(j, 0, argc - 4, argv + 4);
    return 0;
}
