/* SPDX-License-Identifier: MIT */
/* src/trace/sink.h -- where packed blocks go: into the file as they come, or into memory of a fixed size that keeps the
 * last of them until somebody wants a file. */
#ifndef QN_TRACE_SINK_H
#define QN_TRACE_SINK_H

#include "base/error.h"
#include "base/str.h"

typedef struct qn_trace_sink {
    char *path; /* owned */
    char *temp; /* owned: the file's name until qn__trace_sink_commit, where another recording is at the path; NULL */
    int fd;     /* -1: no file open */
    uint64_t written, limit;
    int n_files;
    /* the last blocks: each with its length before it, from `from` on around the end */
    uint8_t *kept; /* NULL: they go into the file */
    uint64_t kept_bytes, from, used;
    qn_str always; /* blocks that every file begins with */
    bool failed, limited;
    char reason[256];
} qn_trace_sink;

qn_status qn__trace_sink_open(qn_trace_sink *s, const char *path, uint64_t limit, uint64_t last_bytes, qn_error *err);
/* A block, whole. `always`: it isn't forgotten. What goes wrong is kept in the sink. */
void qn__trace_sink_put(qn_trace_sink *s, const void *block, size_t n, bool always);
/* There is something to show: the file is at its path from now on, and no recording that was there before is. Without
 * it that one stays, and n_files is 0. */
void qn__trace_sink_commit(qn_trace_sink *s);
/* Writes what is kept to a file of its own; `end` is its last block. */
void qn__trace_sink_dump(qn_trace_sink *s, const void *end, size_t n);
/* The same, appended to `to`. */
void qn__trace_sink_copy(qn_trace_sink *s, const void *end, size_t n, qn_str *to);
/* `end`, the last block of a file that grows, has room beyond the limit. */
void qn__trace_sink_close(qn_trace_sink *s, const void *end, size_t n);
void qn__trace_sink_deinit(qn_trace_sink *s);

#endif
