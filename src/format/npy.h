/* SPDX-License-Identifier: MIT */
/* src/format/npy.h -- reading NumPy's .npy files; writing them is public, quern/npy.h. */
#ifndef QN_FORMAT_NPY_H
#define QN_FORMAT_NPY_H

#include "base/str.h"
#include <quern/npy.h>

typedef struct qn_npy_header {
    qn_dtype dtype;
    qn_shape shape;
    bool fortran;         /* the first dimension varies fastest; false where that makes no difference */
    bool swap;            /* the other byte order than this machine's */
    size_t offset, bytes; /* of the data, all of which is there */
} qn_npy_header;

/* Reads the header of a whole file in memory: format versions 1 to 3, either order of bytes and of dimensions. `label`
 * names it in messages; limit when the data takes more than max_bytes. */
qn_status qn__npy_header_read(const void *file, size_t size, const char *label, size_t max_bytes, qn_npy_header *out,
                              qn_error *err);
/* The data of that file, h->bytes of it, in this machine's byte order. */
void qn__npy_copy(const qn_npy_header *h, const void *file, void *dst);

/* The end of a path, as messages show it. */
#define QN_NPY_LABEL 160
void qn__npy_label(const char *path, char label[QN_NPY_LABEL]);

/* A header into *out, which is emptied first; at least so many bytes long, so that it can be written anew for more
 * rows. false: no memory. The dtype is one that qn__npy_kind knows. */
bool qn__npy_header(qn_str *out, qn_dtype dtype, const qn_shape *shape, size_t least);
/* Puts another first dimension into such a header; false, and nothing is changed, where it has more or fewer digits. */
bool qn__npy_set_rows(char *header, int64_t rows);
/* What a descr says of a dtype after the byte order ("f4"), or NULL for one that .npy files have no letters for. */
const char *qn__npy_kind(qn_dtype dtype);
#define QN_NPY_KINDS "f2, f4, f8, i1, i2, i4, i8, u1, b1 or V2 (BF16)"

#endif
