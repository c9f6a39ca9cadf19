/* SPDX-License-Identifier: MIT */
/* src/cli/trace_report.h -- quern trace report: what its page gets of a trace, in parts of columns. */
#ifndef QN_CLI_TRACE_REPORT_H
#define QN_CLI_TRACE_REPORT_H

#include "cli/trace.h"

/* Bytes that grow; sticky: once memory was short nothing is added any more. */
typedef struct trace_bytes {
    uint8_t *at;
    size_t n, cap;
    bool failed;
} trace_bytes;
void trace_bytes_put(trace_bytes *b, const void *data, size_t n);

/* A column, as the page's data.js reads it. */
typedef enum trace_column_kind {
    TRACE_COLUMN_number = 'u', /* 7 bits a byte, lowest first, the high bit set where more follow */
    TRACE_COLUMN_signed = 's', /* 0, -1, 1, -2 .. as numbers 0, 1, 2, 3 .. */
    TRACE_COLUMN_step = 'd',   /* differences, signed, each to the one before */
    TRACE_COLUMN_text = 't',   /* length, bytes */
    TRACE_COLUMN_float = 'f',  /* float32, little endian */
} trace_column_kind;
typedef struct trace_column {
    const char *name;
    trace_column_kind kind;
    uint64_t n;
    int64_t last;
    trace_bytes data;
} trace_column;
void trace_column_put(trace_column *c, int64_t value); /* of a number: not below 0 */
void trace_column_put_float(trace_column *c, float value);
void trace_column_put_text(trace_column *c, const char *text, size_t n);

/* A part of the data: columns, behind each other, deflated together. */
typedef struct trace_part {
    trace_bytes data;
} trace_part;
/* Moves the columns into the part: they are empty then. */
void trace_part_add(trace_part *p, trace_column *columns, int n);

/* What a page is made of. */
typedef struct trace_report_source {
    qn_trace *trace;
    trace_sums sums;
    const char *path;
    bool damaged;
    char *lens; /* what quern lens --json wrote, of n_lens bytes; NULL: none. Owned */
    size_t n_lens;
} trace_report_source;
/* Reads it; NULL: there is none. CLI_OK, or a message. */
int trace_report_read_lens(trace_report_source *s, const char *path);

/* Parts, a row each: ROW(name, "what it is"). trace_part_NAME fills it; false after a message. A part that has nothing
 * to say is left out: the views that need it show "not measured". A part that needs what the recording may lack is one
 * more row here, one more function, and one more line of `needs` in the view that shows it. */
/* clang-format off */
#define TRACE_PART_ROWS(ROW) \
    ROW(overview,  "what quern trace stats --json says, and of the file") \
    ROW(steps,     "steps, their tokens, what they see, their accounts") \
    ROW(plans,     "compiled graphs, a row a node") \
    ROW(choices,   "experts that were chosen, a row a step and router") \
    ROW(values,    "what rows of values were like, a row a step and node") \
    ROW(lens,      "what quern lens said of the prompt") \
    ROW(usage,     "what the system counted") \
    ROW(faults,    "page faults that the kernel sampled") \
    ROW(pauses,    "times a thread lost its core to others") \
    ROW(residency, "what of files was in memory, when") \
    ROW(extents,   "tensors in files: what was touched of them, what was in memory") \
    ROW(curves,    "what less memory would read from disk") \
    ROW(events,    "events by lane, in the order of their ends")
/* clang-format on */
#define TRACE_PART_FUNCTION(name, text) bool trace_part_##name(trace_report_source *s, trace_part *p);
TRACE_PART_ROWS(TRACE_PART_FUNCTION)
#undef TRACE_PART_FUNCTION
/* Of two traces with hashes of values: the first that differs. */
bool trace_part_difference(const trace_report_source *a, const trace_report_source *b, trace_part *p);

#endif
