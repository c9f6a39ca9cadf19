/* SPDX-License-Identifier: MIT */
/* src/nn/stored.h -- a file of named tensors, GGUF or safetensors, as loading sees it. */
#ifndef QN_NN_STORED_H
#define QN_NN_STORED_H

#include <quern/array.h>
#include <quern/gguf.h>
#include <quern/safetensors.h>

typedef struct qn_stored_file {
    qn_gguf *gguf; /* one of the two */
    qn_safetensors *st;
} qn_stored_file;

typedef struct qn_stored {
    const char *name;
    qn_dtype dtype;
    qn_shape shape;
    uint64_t size_bytes;
    const void *data; /* as this machine reads it; NULL: qn__stored_read makes a copy that is */
    const qn_gguf_tensor *gguf;
    const qn_safetensors_tensor *st;
} qn_stored;

/* Which format it is, the first bytes say. */
qn_status qn__stored_open(const char *path, qn_stored_file *out, qn_error *err);
void qn__stored_close(qn_stored_file *f);
size_t qn__stored_count(const qn_stored_file *f);
void qn__stored_get(const qn_stored_file *f, size_t i, qn_stored *out);
bool qn__stored_find(const qn_stored_file *f, const char *name, qn_stored *out);
qn_status qn__stored_read(const qn_stored_file *f, const qn_stored *t, void *dst, qn_error *err);

/* A dense tensor of plain numbers, on whatever device: its values into the file as the next tensor's data; and those of
 * a tensor of the file with its dtype and shape, into its memory. What goes wrong with t is left in its context too. */
qn_status qn__values_write(qn_tensor *t, qn_safetensors_writer *w, qn_error *err);
qn_status qn__values_read(qn_tensor *t, const qn_safetensors *file, const qn_safetensors_tensor *from, qn_error *err);

#endif
