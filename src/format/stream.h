/* SPDX-License-Identifier: MIT */
/* src/format/stream.h -- the end that writers of tensor files share: a file that appears only when it is whole, the
 * first error, and tensors' data that must come in order and in its size. */
#ifndef QN_FORMAT_STREAM_H
#define QN_FORMAT_STREAM_H

#include "base/error.h"
#include "base/file.h"

typedef struct qn_stream {
    qn_writer *out;
    qn_error error;   /* the first one; status ok while there is none */
    size_t current;   /* tensor whose data comes next, in the file's order */
    uint64_t written; /* of it */
} qn_stream;

/* Only the first error is kept: those after it are its consequences. */
#define QN_STREAM_FAIL(s, status_, ...) \
    do { \
        if ((s)->error.status == QN_OK) (void)QN_FAIL(&(s)->error, status_, __VA_ARGS__); \
    } while (0)

static inline bool qn__stream_healthy(const qn_stream *s) { return s->error.status == QN_OK; }

/* The tensor whose data comes: its name and size; name NULL behind the last of n_tensors. */
typedef struct qn_stream_tensor {
    const char *name;
    uint64_t size_bytes;
    size_t n_tensors;
} qn_stream_tensor;

/* Writes bytes of it; false, with the error set, for more than it has. */
bool qn__stream_put(qn_stream *s, qn_stream_tensor t, const void *bytes, size_t n);
qn_status qn__stream_status(const qn_stream *s, qn_error *err);
/* Ends the file: state when data of `t` is missing. The file is closed whatever comes out. */
qn_status qn__stream_commit(qn_stream *s, qn_stream_tensor t, qn_error *err);

#endif
