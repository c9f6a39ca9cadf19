/* SPDX-License-Identifier: MIT */
/* src/cli/bench.h -- what the files of quern bench share: a test, its result, and the limit that it is measured
 * against. */
#ifndef QN_CLI_BENCH_H
#define QN_CLI_BENCH_H

#include "cli/model.h"
#include "cli/recording.h"
#include <quern/machine.h>

/* What was measured of the machine for one number of threads at one level: the best of all measurements of this run. */
typedef struct bench_machine {
    qn_machine_peaks peaks;
    char cpu_level[16]; /* "": no backend is the processor */
} bench_machine;

/* What was measured of a device, once. */
typedef struct bench_device {
    char name[32]; /* "cuda:0" */
    qn_device_peaks peaks;
} bench_device;

enum { BENCH_MAX_DEVICES = 16 };

typedef struct bench_row {
    /* the test */
    const char *model; /* the path as it was given */
    /* pp: n tokens of one sequence at once, of an encoder `batch` texts of n tokens; else tg: n steps, one token of
     * each of `batch` sequences */
    bool prompt;
    int32_t n, depth, batch;
    char kv_type[16];  /* as --kv-type takes it */
    int machine;       /* index */
    int device;        /* index: all of the model is computed there, and the limit is its; -1: it is the processor's */
    char backends[64]; /* "cuda:0+cpu:avx2" where a device computes, else "" */
    bool divided;      /* between backends: there is no limit */
    /* the result */
    double tokens_per_second; /* median over the repetitions */
    double spread;            /* (third quartile - first quartile) / median */
    uint64_t peak_bytes;      /* most memory allocated at a time, the mapped file not counted */
    double load_seconds;
    double load_gb_s; /* 0: nothing was read or copied */
    double host_us;   /* of a step or prompt that the host did not wait for a device, median */
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
    bench_device devices[BENCH_MAX_DEVICES];
    int n_devices;
} bench_table;

/* ---- bench_device.c ---- */
/* Says of a row where the model is computed, and measures a device that is met for the first time. */
int bench_place(const qn_engine *engine, const cli_model_options *m, bench_table *t, bench_row *row);
/* Without a model: the devices that the options name, else all with memory of their own. */
int bench_devices(const cli_model_options *m, bench_table *t);
/* Rates of a device in the processor's terms. */
qn_machine_peaks bench_device_limit(const qn_device_peaks *p);

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
