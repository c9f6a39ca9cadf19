/* SPDX-License-Identifier: MIT */
/* quern/safetensors.h -- safetensors files: opening (one file, or shards by their index), looking things up, and
 * writing. Format: https://github.com/huggingface/safetensors. Opening maps the file and reads the header once; no
 * tensor byte is touched. Everything in a header is hostile until checked; limits are in docs/FORMATS.md. An open file
 * is immutable: any number of threads may read it. */
#ifndef QUERN_SAFETENSORS_H
#define QUERN_SAFETENSORS_H

#include <quern/base.h>
#include <quern/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_safetensors qn_safetensors;

typedef struct qn_safetensors_tensor {
    const char *name; /* terminated */
    const char *type; /* as the file spells it: "BF16" */
    qn_dtype dtype;   /* QN_DTYPE_COUNT where keep_unsupported let a type pass that Quern does not compute with */
    qn_shape shape;   /* outermost first, as in the file; a dimension may be 0 */
    const void *data; /* in the mapping, little endian; valid until close; never NULL */
    uint64_t size_bytes;
    uint64_t file_offset; /* absolute, in its part */
    int part;             /* 0-based index of the shard it lies in */
    bool direct; /* data may be used where it is: aligned for its type, this machine's byte order, not BOOL (whose
                  * bytes only qn_safetensors_read makes 0 or 1) */
} qn_safetensors_tensor;

typedef struct qn_safetensors_meta {
    const char *key;   /* terminated */
    const char *value; /* terminated, but may hold zeros: `len` bytes */
    size_t len;
} qn_safetensors_meta;

typedef struct qn_safetensors_options {
    bool keep_unsupported; /* opens files with types that Quern has none for (F8_E4M3, F8_E5M2, U16, ...), which are
                            * refused otherwise; such tensors can be listed, and their bytes read in place */
} qn_safetensors_options;

/* Opens PATH; when it ends in ".json" it is the index of a sharded model (model.safetensors.index.json) and all its
 * shards are opened from the same folder. Every error is one line: the file, the tensor, the offset, what was found and
 * expected. */
QN_API qn_status qn_safetensors_open(const char *path, const qn_safetensors_options *options, qn_safetensors **out,
                                     qn_error *err);
/* One file, from memory, which must outlive the handle. */
QN_API qn_status qn_safetensors_open_memory(const void *data, size_t size, const qn_safetensors_options *options,
                                            qn_safetensors **out, qn_error *err);
QN_API void qn_safetensors_close(qn_safetensors *file);

QN_API int qn_safetensors_n_parts(const qn_safetensors *file);
QN_API uint64_t qn_safetensors_file_bytes(const qn_safetensors *file); /* all parts */
/* In the order of the data, parts in order of their names. get gives NULL past the end, find NULL when absent. */
QN_API size_t qn_safetensors_n_tensors(const qn_safetensors *file);
QN_API const qn_safetensors_tensor *qn_safetensors_tensor_get(const qn_safetensors *file, size_t index);
QN_API const qn_safetensors_tensor *qn_safetensors_tensor_find(const qn_safetensors *file, const char *name);
/* __metadata__, of the first part, in file order. */
QN_API size_t qn_safetensors_n_meta(const qn_safetensors *file);
QN_API const qn_safetensors_meta *qn_safetensors_meta_get(const qn_safetensors *file, size_t index);
QN_API const qn_safetensors_meta *qn_safetensors_meta_find(const qn_safetensors *file, const char *key);
/* Copies a tensor of this file to dst (size_bytes of it) in this machine's byte order. unsupported when it has no
 * dtype. */
QN_API qn_status qn_safetensors_read(const qn_safetensors *file, const qn_safetensors_tensor *tensor, void *dst,
                                     qn_error *err);

/* ---- writing --------------------------------------------------------------------------------- */

/* Declares everything first, then streams tensor data: memory stays bounded by the header. Errors are sticky and come
 * out of commit; the target appears only then, whole. Data lies in the file by type, widest first, else as declared, so
 * that every tensor is aligned; with one type only that is the order of declaring. Tensors declared in order of their
 * names give the bytes that the format's own library writes. Nothing is accepted that opening would refuse. */
typedef struct qn_safetensors_writer qn_safetensors_writer;
QN_API qn_status qn_safetensors_writer_create(const char *path, qn_safetensors_writer **out, qn_error *err);
QN_API void qn_safetensors_write_meta(qn_safetensors_writer *w, const char *key, const char *value);
QN_API void qn_safetensors_declare(qn_safetensors_writer *w, const char *name, qn_dtype dtype, const qn_shape *shape);
/* Which tensor's data comes next, by number of declaring; the number of tensors when all data is there, SIZE_MAX once
 * an error has happened. The first call ends declaring. */
QN_API size_t qn_safetensors_writer_next(qn_safetensors_writer *w);
/* Appends bytes of that tensor, as they lie in a little-endian file; its size must come out exactly before the next
 * begins. */
QN_API void qn_safetensors_write_data(qn_safetensors_writer *w, const void *bytes, size_t n);
/* the sticky error so far */
QN_API qn_status qn_safetensors_writer_status(const qn_safetensors_writer *w, qn_error *err);
/* Ends and closes: w is gone on success and on failure. */
QN_API qn_status qn_safetensors_writer_commit(qn_safetensors_writer *w, qn_error *err);
QN_API void qn_safetensors_writer_abort(qn_safetensors_writer *w);

#ifdef __cplusplus
}
#endif
#endif
