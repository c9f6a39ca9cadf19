/* SPDX-License-Identifier: MIT */
/* src/cli/train_log.c -- the log of a training as CSV. */
#include "cli/train.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEADER        "step,lr,loss,grad_norm,held_out_bits_per_byte\n"
#define MAX_LOG_BYTES ((size_t)1 << 30)

static int keep(train_log *log, const train_row *row)
{
    if (log->n == log->cap) {
        const int32_t cap = log->cap ? log->cap * 2 : 1024;
        train_row *rows = realloc(log->rows, (size_t)cap * sizeof *rows);
        if (!rows) return cli_no_memory("out of memory");
        log->rows = rows;
        log->cap = cap;
    }
    log->rows[log->n++] = *row;
    return CLI_OK;
}

static int print_row(const train_row *row, char *text, size_t size)
{
    const int n = snprintf(text, size, "%d,%.9g,%.17g,%.17g,", row->step, row->lr, row->loss, row->grad_norm);
    if (isnan(row->held)) return n + snprintf(text + n, size - (size_t)n, "\n");
    return n + snprintf(text + n, size - (size_t)n, "%.17g\n", row->held);
}

static bool parse_row(const char *line, train_row *row)
{
    char *end = NULL;
    row->step = (int32_t)strtol(line, &end, 10);
    double *const fields[] = {&row->lr, &row->loss, &row->grad_norm};
    for (int i = 0; i < 3; i++) {
        if (*end != ',') return false;
        *fields[i] = strtod(end + 1, &end);
    }
    if (*end != ',') return false;
    row->held = end[1] == '\n' ? NAN : strtod(end + 1, &end);
    return row->step > 0 && isfinite(row->loss);
}

/* The rows up to a step of a file that may end in half a line. */
static int read_rows(train_log *log, int32_t step)
{
    size_t len = 0;
    FILE *probe = fopen(log->path, "rb");
    if (!probe) return CLI_OK; /* lost: the curve begins here */
    fclose(probe);
    char *text = cli_read_text(log->path, MAX_LOG_BYTES, &len);
    if (!text) return CLI_FAILED;
    int status = CLI_OK;
    const char *line = strchr(text, '\n');
    if (strncmp(text, HEADER, strlen(HEADER)) != 0) status = cli_fail("%s is no log of a training", log->path);
    while (status == CLI_OK && line && line[1]) {
        const char *next = strchr(line + 1, '\n');
        train_row row;
        if (!next || !parse_row(line + 1, &row) || row.step > step) break;
        status = keep(log, &row);
        line = next;
    }
    free(text);
    return status;
}

int train_log_open(train_log *log, const char *path, int32_t step)
{
    char text[160];
    *log = (train_log){.path = path};
    if (!path) return CLI_OK;
    if (step > 0) {
        const int status = read_rows(log, step);
        if (status != CLI_OK) return status;
    }
    log->file = fopen(path, "wb");
    if (!log->file) return cli_fail("cannot write %s: %s", path, strerror(errno));
    fputs(HEADER, log->file);
    for (int32_t i = 0; i < log->n; i++) {
        const int n = print_row(&log->rows[i], text, sizeof text);
        fwrite(text, 1, (size_t)n, log->file);
    }
    return fflush(log->file) == 0 ? CLI_OK : cli_fail("cannot write %s: %s", path, strerror(errno));
}

int train_log_add(train_log *log, const train_row *row)
{
    char text[160];
    const int status = keep(log, row);
    if (status != CLI_OK || !log->file) return status;
    const int n = print_row(row, text, sizeof text);
    if (fwrite(text, 1, (size_t)n, log->file) == (size_t)n && fflush(log->file) == 0) return CLI_OK;
    const int lost = cli_fail("cannot write %s: %s", log->path, strerror(errno));
    fclose(log->file); /* said once; the rows are kept for the curve */
    log->file = NULL;
    return lost;
}

int train_log_close(train_log *log)
{
    int status = CLI_OK;
    if (log->file && fclose(log->file) != 0) status = cli_fail("cannot write %s: %s", log->path, strerror(errno));
    free(log->rows);
    *log = (train_log){0};
    return status;
}
