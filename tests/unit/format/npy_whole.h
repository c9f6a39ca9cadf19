/* SPDX-License-Identifier: MIT */
/* tests/unit/format/npy_whole.h -- a .npy file as one block of memory, read as the loader of tensors does. */
#ifndef TESTS_FORMAT_NPY_WHOLE_H
#define TESTS_FORMAT_NPY_WHOLE_H

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/npy.h"

typedef struct qn_npy {
    qn_dtype dtype;
    qn_shape shape;
    bool fortran; /* as in the header */
    void *data;   /* owned; this machine's byte order */
    size_t bytes;
} qn_npy;

static inline qn_status qn__npy_parse(const void *bytes, size_t size, const char *label, size_t max_bytes, qn_npy *out,
                                      qn_error *err)
{
    qn_npy_header h;
    QN_TRY(qn__npy_header_read(bytes, size, label, max_bytes, &h, err));
    const qn_npy npy = {
        .dtype = h.dtype, .shape = h.shape, .fortran = h.fortran, .data = qn__alloc(h.bytes), .bytes = h.bytes};
    if (!npy.data) return QN_FAIL_NOMEM(err, npy.bytes);
    qn__npy_copy(&h, bytes, npy.data);
    *out = npy;
    return QN_OK;
}

static inline qn_status qn__npy_read(const char *path, size_t max_bytes, qn_npy *out, qn_error *err)
{
    qn_map map;
    char label[QN_NPY_LABEL];
    qn__npy_label(path, label);
    QN_TRY(qn__map_open(path, &map, err));
    const qn_status status = qn__npy_parse(map.data, map.size, label, max_bytes, out, err);
    qn__map_close(&map);
    return status;
}

static inline void qn__npy_deinit(qn_npy *npy)
{
    if (!npy) return;
    qn__free(npy->data);
    *npy = (qn_npy){0};
}

#endif
