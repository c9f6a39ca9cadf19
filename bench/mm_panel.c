/* SPDX-License-Identifier: MIT */
/* bench/mm_panel.c -- products with many columns (prompt processing): every format's speed beside the arithmetic peak
 * of the same seconds. Each thread computes all columns of tiles of its own rows, as op/linear.c hands them out; the
 * processor time of a product counts, at its lower quartile, and peaks are measured between products, so that other
 * programs disturb little.
 *
 *     bench_mm_panel [columns] [k] [level] [format]     512, 2048, avx512, all; one table for one thread, one for all
 */
#include "base/mem.h"
#include "base/thread.h"
#include "cpu/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 2048, RUNS = 7 };

typedef struct job {
    const qn_kernels *kernels;
    const qn_mm *mm;
    qn_dtype dtype;
    int64_t k, cols;
    uint8_t *w, *x;
    qn_mm_args args;
    float *columns, *y;
    double product[QN_MAX_THREADS], peak[QN_MAX_THREADS]; /* multiply-adds a second, by member */
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

static double upper_quartile(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n * 3 / 4];
}

/* The columns as the kernel takes them; returns the arguments that say so. */
static qn_mm_args prepare(job *j)
{
    const qn_mm_panel *panel = qn__mm_panel(j->mm, j->cols);
    const qn_mm_pack *pack = panel ? panel->pack : NULL;
    const int64_t blocks = qn__act_blocks(j->mm->act, j->k);
    const size_t column_bytes = (size_t)(blocks * qn__act_block_bytes(j->mm->act));
    qn_mm_args a = {.k = j->k,
                    .cols = (int32_t)j->cols,
                    .y_stride = ROWS,
                    .w_row_bytes = (size_t)qn_dtype_row_bytes(j->dtype, j->k)};
    a.x = j->x;
    a.x_row_bytes = column_bytes;
    if (j->mm->act == QN_ACT_f32) {
        a.x = j->columns;
    } else if (pack) {
        const int64_t groups = (j->cols + pack->cols - 1) / pack->cols;
        void *column = malloc(column_bytes);
        a.x_row_bytes = pack->block_bytes;
        a.x_block_bytes = (size_t)groups * pack->block_bytes;
        for (int64_t c = 0; c < j->cols; c++) {
            qn__act_put(j->kernels, j->mm->act, column, j->columns + c * j->k, j->k);
            pack->put(j->x + (size_t)(c / pack->cols) * pack->block_bytes, a.x_block_bytes, (int)(c % pack->cols),
                      column, blocks);
        }
        free(column);
    } else {
        for (int64_t c = 0; c < j->cols; c++)
            qn__act_put(j->kernels, j->mm->act, j->x + (size_t)c * column_bytes, j->columns + c * j->k, j->k);
    }
    return a;
}

static void member(void *ctx, int id, int n)
{
    job *j = ctx;
    qn_mm_args a = j->args;
    const qn_mm_panel *panel = qn__mm_panel(j->mm, j->cols);
    const qn_mm_fn fn = panel ? panel->fn : qn__mm_gemv(j->kernels, j->mm);
    const int64_t step = !panel ? 128 : panel->rows ? panel->rows : 32;
    const int64_t begin = ROWS / n * id, end = begin + ROWS / n;
    double product[RUNS], peak[RUNS];
    a.tile = qn__alloc_aligned(QN_MM_TILE_BYTES, 64);
    if (!a.tile) exit(1);
    for (int run = 0; run < RUNS; run++) {
        double start = now();
        for (int64_t r = begin; r < end; r += step) {
            a.w = j->w + (size_t)r * a.w_row_bytes;
            a.y = j->y + r;
            a.rows = (int32_t)(end - r < step ? end - r : step);
            fn(&a);
        }
        product[run] = (double)(end - begin) * (double)j->k * (double)j->cols / (now() - start);
        start = now();
        const int64_t done = j->mm->act == QN_ACT_f32    ? j->kernels->probe_f32(100000000)
                             : j->mm->act == QN_ACT_bf16 ? j->kernels->probe_bf16(400000000) / 2
                             : j->mm->act == QN_ACT_512  ? j->kernels->probe_bf16(400000000) / 3
                                                         : j->kernels->probe_int8(400000000);
        peak[run] = (double)done / (now() - start);
    }
    qn__free(a.tile);
    j->product[id] = upper_quartile(product, RUNS);
    j->peak[id] = upper_quartile(peak, RUNS);
}

static double total(const double *v, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    return sum;
}

static void table(job *j, int n_threads, const char *only)
{
    qn_team *team = NULL;
    qn_error err;
    if (qn__team_create(&(qn_team_options){.n_threads = n_threads}, &team, &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    n_threads = qn__team_size(team);
    printf("%d thread%s, %lld columns, k = %lld\n", n_threads, n_threads > 1 ? "s" : "", (long long)j->cols,
           (long long)j->k);
    printf("%-8s %8s %8s\n", "format", "Gop/s", "of peak");
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        j->mm = &j->kernels->mm[d];
        j->dtype = (qn_dtype)d;
        const char *name = qn_dtype_get(j->dtype)->name;
        if (!j->mm->gemv || (only && strcmp(only, name) != 0)) continue;
        j->args = prepare(j);
        qn__team_run(team, member, j);
        const double product = total(j->product, n_threads), peak = total(j->peak, n_threads);
        printf("%-8s %8.1f %7.1f%%\n", name, 2e-9 * product, 100 * product / peak);
        fflush(stdout);
    }
    qn__team_destroy(team);
}

int main(int argc, char **argv)
{
    qn_cpu_level level = QN_CPU_avx512;
    job *j = calloc(1, sizeof *j);
    j->cols = argc > 1 ? atoll(argv[1]) : 512;
    j->k = argc > 2 ? atoll(argv[2]) / 256 * 256 : 2048;
    if (argc > 3 && !qn_cpu_level_find(argv[3], &level)) return 1;
    if (j->k <= 0 || j->cols <= 0) return 1;
    j->kernels = qn__kernels_get(level);
    j->w = qn__alloc((size_t)(ROWS * j->k * 8)); /* F64 is a weight too */
    j->x = qn__alloc((size_t)((j->cols + 32) * j->k * 4));
    j->columns = qn__alloc((size_t)(j->cols * j->k * 4));
    j->y = qn__alloc((size_t)(j->cols * ROWS * 4));
    if (!j->w || !j->x || !j->columns || !j->y) return 1;
    memset(j->w, 0x35, (size_t)(ROWS * j->k * 8));
    memset(j->x, 0, (size_t)((j->cols + 32) * j->k * 4));
    for (int64_t i = 0; i < j->cols * j->k; i++) j->columns[i] = (float)(i % 37 - 11);
    table(j, 1, argc > 4 ? argv[4] : NULL);
    if (!getenv("ONE_THREAD")) table(j, 0, argc > 4 ? argv[4] : NULL);
    return 0;
}
