/* SPDX-License-Identifier: MIT */
/* src/format/gguf_writer.h -- the GGUF writer, for the two files that add to it: gguf_write.c what the caller declares,
 * gguf_copy.c what comes from another file. */
#ifndef QN_FORMAT_GGUF_WRITER_H
#define QN_FORMAT_GGUF_WRITER_H

#include "base/str.h"
#include "format/gguf_file.h"
#include "format/stream.h"

typedef struct qn_gguf_declared {
    const char *name; /* first, for the name index */
    qn_dtype dtype;
    qn_shape shape;
    uint64_t size_bytes;
    uint64_t offset; /* from the start of the data */
} qn_gguf_declared;

struct qn_gguf_writer {
    qn_arena arena; /* this struct is its first allocation */
    qn_stream to;
    qn_str kv; /* the metadata table as it will lie in the file */
    const char **keys;
    size_t n_keys, cap_keys;
    qn_gguf_declared *tensors;
    size_t n_tensors, cap_tensors;
    uint32_t alignment;
    bool streaming; /* the header is out */
};

#define QN_WRITER_FAIL(w, status_, ...) QN_STREAM_FAIL(&(w)->to, status_, __VA_ARGS__)

/* Starts an entry of the metadata table with its key and type; false when it may not be. end_kv looks whether the table
 * still fits memory and the limit. */
bool qn__gguf_begin_kv(qn_gguf_writer *w, const char *key, qn_gguf_type type);
void qn__gguf_end_kv(qn_gguf_writer *w);
/* A key with a fixed-size value, given as its bits; general.alignment takes effect. */
void qn__gguf_write_scalar(qn_gguf_writer *w, const char *key, qn_gguf_type type, uint64_t bits);
/* The low bytes of a value, lowest first. */
void qn__gguf_put_le(qn_str *s, uint64_t value, int bytes);
bool qn__gguf_is_alignment(const char *key);

/* What is declared, checked and laid out: the first bytes of a file go to `first`, and behind them belongs w->kv, which
 * has tensors too now. */
bool qn__gguf_build_header(qn_gguf_writer *w, qn_str *first);
/* A writer without a file; take_header ends it and gives the bytes, which open again (qn_gguf_open_memory; where
 * tensors were declared, with metadata_only). */
qn_status qn__gguf_writer_create_memory(qn_gguf_writer **out, qn_error *err);
qn_status qn__gguf_writer_take_header(qn_gguf_writer *w, qn_str *out, qn_error *err);

#endif
