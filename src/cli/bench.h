/* SPDX-License-Identifier: MIT */
/* src/cli/bench.h -- what the files of quern bench share: a test, its result, and the limit that it is measured
 * against. */
#ifndef QN_CLI_BENCH_H
#define QN_CLI_BENCH_H

#include "cli/model.h"
#include "cli/recording.h"

/* What was measured of the machine for one number of threads at one level: the best of all measurements of this run. */
typedef struct bench_machine {
    qn_machine_peaks peaks;
    char cpu_level[16];
} bench_machine;

typedef struct bench_row {
    /* the test */
    const char *model; /* the path as it was given */
    /* pp: n tokens of one sequence at once, of an encoder `batch` texts of n tokens; else tg: n steps, one token of
     * each of `batch` sequences */
    bool prompt;
    int32_t n, depth, batch;
    char kv_type[16]; /* as --kv-type takes it */
    int machine;      /* index */
    /* the result */
    double tokens_per_second; /* median over the repetitions */
    double spread;            /* (third quartile - first quartile) / median */
    uint64_t peak_bytes;      /* most memory allocated at a time, the mapped file not counted */
    double load_seconds;
    /* for the limit */
    int32_t chunk;             /* prompt tokens computed at once */
    int32_t at_once;           /* texts of an encoder; 0: it is none */
    qn_batch_cost whole, rest; /* of a whole chunk, or a step; of the last chunk, when that is smaller */
} bench_row;

typedef struct bench_table {
    bench_row *rows;
    int n_rows;
    bench_machine *machines;
    int n_machines;
} bench_table;

/* ---- bench_run.c ---- */
/* Runs row's test: one warm-up, then `repetitions` timed ones; fills in everything of the row but `model` and
 * `machine`. */
int bench_run(qn_engine *engine, const cli_model_options *m, int repetitions, cli_progress *progress, uint64_t *done,
              uint64_t total, bench_row *row);

/* ---- bench_limit.c ---- */
typedef struct bench_limit {
    double tokens_per_second;
    double bytes, ops; /* of the whole test: for what was reached in bytes and operations a second */
    bool by_memory;    /* reading takes longer than computing, over the whole test */
} bench_limit;
bench_limit bench_limit_of(const bench_row *row, const qn_machine_peaks *peaks);

/* ---- bench_print.c ---- */
/* "md", "csv" or "json"; NULL when there is no such format. */
typedef int (*bench_print_fn)(const bench_table *table, int repetitions, bool roofline);
bench_print_fn bench_find_format(const char *name);

#endif
