/* SPDX-License-Identifier: MIT */
/* quern/npy.h -- writing arrays to NumPy's .npy files (format version 1.0, C order, this machine's byte order). */
#ifndef QUERN_NPY_H
#define QUERN_NPY_H

#include <quern/base.h>
#include <quern/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The header goes out first, with the whole shape; then the elements stream through in row-major order, any number a
 * call, so memory stays bounded. Errors are sticky and come out of commit; the target appears only then, whole ("-" is
 * standard output). dtype: F16, F32, F64, BF16 (as two bytes of whatever, V2, for which NumPy has no name of its own),
 * I8 to I64, U8 or BOOL. Rank 0 to 8; empty arrays are fine. */
typedef struct qn_npy_writer qn_npy_writer;
QN_API qn_status qn_npy_writer_open(const char *path, qn_dtype dtype, const qn_shape *shape, qn_npy_writer **out,
                                    qn_error *err);
QN_API void qn_npy_write(qn_npy_writer *w, const void *values, uint64_t n_elements);
/* Ends and closes: w is gone on success and on failure. state when the elements are fewer or more than the shape holds.
 */
QN_API qn_status qn_npy_writer_commit(qn_npy_writer *w, qn_error *err);
QN_API void qn_npy_writer_abort(qn_npy_writer *w);

#ifdef __cplusplus
}
#endif
#endif
