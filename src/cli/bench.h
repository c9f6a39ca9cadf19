/* SPDX-License-Identifier: MIT */
/* src/cli/bench.h -- what the files of quern bench share: a test, its result, and the limit that it is measured
 * against. */
#ifndef QN_CLI_BENCH_H
#define QN_CLI_BENCH_H

#include "cli/model.h"

/* What one step must read and multiply at least, counted from the file's tensors. The body is everything but the
 * embedding table and the output matrix: the table is only looked up, the output is read and multiplied for tokens
 * whose logits are wanted (a tied table is both). */
/* multiply-adds a token, by the peak that bounds the type */
typedef struct bench_part {
    double bytes, int8_macs, f32_macs, bf16_macs, f16_macs;
} bench_part;
typedef struct bench_weights {
    bench_part body, out, experts;
    double share; /* of its experts that a token uses */
} bench_weights;

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
    int32_t chunk;     /* prompt tokens computed at once */
    double cell_bytes; /* keys and values of one position in all layers */
    bench_weights weights;
} bench_row;

typedef struct bench_table {
    bench_row *rows;
    int n_rows;
    bench_machine *machines;
    int n_machines;
} bench_table;

/* ---- bench_run.c ---- */
/* Runs row's test: one warm-up, then `repetitions` timed ones; fills in everything of the row but `model`, `machine`
 * and `weights`. */
int bench_run(qn_engine *engine, const cli_model_options *m, int repetitions, cli_progress *progress, uint64_t *done,
              uint64_t total, bench_row *row);

/* ---- bench_limit.c ---- */
void bench_count_weights(const qn_gguf *file, bench_weights *out);

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
