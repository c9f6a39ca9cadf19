/* SPDX-License-Identifier: MIT */
/* src/cli/train.h -- what the parts of quern train share: the log of steps, its CSV file, its curve. */
#ifndef QN_CLI_TRAIN_H
#define QN_CLI_TRAIN_H

#include "cli/cli.h"

/* held: bits per byte of the text held out; NaN where no evaluation followed the step. */
typedef struct train_row {
    int32_t step;
    double lr, loss, grad_norm, held;
} train_row;

/* One row a step, kept for the curve and written as it comes: numbers to the bit and no times, so two runs can be
 * compared. */
typedef struct train_log {
    train_row *rows;
    int32_t n, cap;
    const char *path; /* NULL: no file */
    FILE *file;
} train_log;

/* Begins the file anew, or, when `step` is not 0, after the row of that step; what a run that was killed wrote later
 * goes. CLI_OK or a message's status. */
int train_log_open(train_log *log, const char *path, int32_t step);
int train_log_add(train_log *log, const train_row *row);
int train_log_close(train_log *log);

/* The curve of losses in bits per byte; `bits` of the text's bytes is one nat of loss a token. */
int train_draw(const train_log *log, const char *path, const char *title, double bits);

#endif
