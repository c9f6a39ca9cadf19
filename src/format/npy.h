/* SPDX-License-Identifier: MIT */
/* src/format/npy.h -- reading NumPy's .npy files; writing them is public, quern/npy.h. */
#ifndef QN_FORMAT_NPY_H
#define QN_FORMAT_NPY_H

#include <quern/npy.h>

typedef struct qn_npy {
    qn_dtype dtype;  /* F32, I32 or I64 */
    qn_shape shape;
    void *data;      /* owned; row-major, this machine's byte order */
    size_t bytes;
} qn_npy;

/* Reads a whole array: format versions 1 to 3, C order, either byte order. limit when it takes more than max_bytes. */
qn_status qn__npy_read(const char *path, size_t max_bytes, qn_npy *out, qn_error *err);
/* The same from the bytes of a file; `label` names it in messages. */
qn_status qn__npy_parse(const void *bytes, size_t size, const char *label, size_t max_bytes, qn_npy *out, qn_error *err);
void qn__npy_deinit(qn_npy *npy);

/* The letters that a descr has after the byte order ("f4"), or NULL for a dtype that .npy files are not read or written for. */
const char *qn__npy_kind(qn_dtype dtype);

#endif
