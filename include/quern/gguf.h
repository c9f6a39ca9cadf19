/* SPDX-License-Identifier: MIT */
/* quern/gguf.h -- GGUF files: opening (versions 2 and 3, both byte orders, split files), looking things up, and
 * writing. Format: the GGUF specification (ggml/docs/gguf.md). Opening maps the file and reads the header once; no
 * tensor byte is touched, whatever the size of the file. Everything in a header is hostile until checked; limits are in
 * docs/FORMATS.md. An open file is immutable: any number of threads may read it. */
#ifndef QUERN_GGUF_H
#define QUERN_GGUF_H

#include <quern/base.h>
#include <quern/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* QN_GGUF_TYPE(name, id, bytes; 0 = variable): metadata value types; row order is the id of the specification. */
/* clang-format off */
#define QN_GGUF_TYPE_ROWS(QN_GGUF_TYPE) \
    QN_GGUF_TYPE(u8,  0, 1) QN_GGUF_TYPE(i8,  1, 1) QN_GGUF_TYPE(u16, 2, 2) QN_GGUF_TYPE(i16, 3, 2) \
    QN_GGUF_TYPE(u32, 4, 4) QN_GGUF_TYPE(i32, 5, 4) QN_GGUF_TYPE(f32, 6, 4) QN_GGUF_TYPE(bool, 7, 1) \
    QN_GGUF_TYPE(str, 8, 0) QN_GGUF_TYPE(arr, 9, 0) QN_GGUF_TYPE(u64, 10, 8) QN_GGUF_TYPE(i64, 11, 8) \
    QN_GGUF_TYPE(f64, 12, 8)
/* clang-format on */
typedef enum qn_gguf_type {
/* clang-format off */
#define QN_GGUF_TYPE_ENUM(name, id, bytes) QN_GGUF_##name = id,
    QN_GGUF_TYPE_ROWS(QN_GGUF_TYPE_ENUM)
#undef QN_GGUF_TYPE_ENUM
    QN_GGUF_TYPE_COUNT
    /* clang-format on */
} qn_gguf_type;
QN_API const char *qn_gguf_type_name(qn_gguf_type type);

typedef struct qn_gguf qn_gguf;

/* A string inside the mapped file: not terminated. */
typedef struct qn_gguf_str {
    const char *data;
    size_t len;
} qn_gguf_str;

typedef struct qn_gguf_kv {
    const char *key;   /* terminated copy */
    qn_gguf_type type; /* QN_GGUF_arr for arrays */
    qn_gguf_type elem; /* of an array; equal to type otherwise */
    uint64_t count;    /* elements of an array, 1 otherwise */
    uint64_t offset;   /* of the value in the file, for messages; an array's is that of its element type and count */
} qn_gguf_kv;

typedef struct qn_gguf_tensor {
    const char *name; /* terminated copy */
    qn_dtype dtype;
    qn_shape shape; /* outermost first: the reverse of the order in the file */
    /* in the mapping, file byte order; valid until close; NULL where metadata_only let it be missing */
    const void *data;
    uint64_t size_bytes;
    uint64_t file_offset; /* absolute, in its part */
    int part;             /* 0-based index of the split file it lies in */
} qn_gguf_tensor;

typedef struct qn_gguf_options {
    /* skips the check that tensor data lies inside the file (a header cut off from its data opens) */
    bool metadata_only;
} qn_gguf_options;

/* Opens PATH, and all its parts when PATH is the first part of a split file (NAME-00001-of-0000N.gguf). The metadata is
 * the first part's. Every error is one line: the file, the key or tensor, the offset, what was found and what was
 * expected. */
QN_API qn_status qn_gguf_open(const char *path, const qn_gguf_options *options, qn_gguf **out, qn_error *err);
/* The same from memory, which must outlive the handle; for tests and fuzzing. */
QN_API qn_status qn_gguf_open_memory(const void *data, size_t size, const qn_gguf_options *options, qn_gguf **out,
                                     qn_error *err);
QN_API void qn_gguf_close(qn_gguf *file);

QN_API const char *qn_gguf_path(const qn_gguf *file); /* of the first part; "" for memory */
QN_API uint32_t qn_gguf_version(const qn_gguf *file);
QN_API bool qn_gguf_big_endian(const qn_gguf *file);
QN_API uint32_t qn_gguf_alignment(const qn_gguf *file);
QN_API int qn_gguf_n_parts(const qn_gguf *file);
QN_API uint64_t qn_gguf_file_bytes(const qn_gguf *file); /* all parts */

QN_API size_t qn_gguf_n_kv(const qn_gguf *file);
QN_API const qn_gguf_kv *qn_gguf_kv_get(const qn_gguf *file, size_t index);
QN_API const qn_gguf_kv *qn_gguf_kv_find(const qn_gguf *file, const char *key); /* NULL when absent */

/* Values, converted and range-checked; kv comes from this file; index is 0 except in arrays. format with key, offset,
 * found and expected type when the value is of another kind or doesn't fit (an integer never becomes a string; any
 * integer type that holds the value is accepted; integers up to 2^53 convert to f64 but not the other way), invalid
 * when the index is past the end. Arrays of arrays open, but no getter reads them. */
QN_API qn_status qn_gguf_get_u64(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, uint64_t *out,
                                 qn_error *err);
QN_API qn_status qn_gguf_get_i64(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, int64_t *out,
                                 qn_error *err);
QN_API qn_status qn_gguf_get_f64(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, double *out, qn_error *err);
QN_API qn_status qn_gguf_get_bool(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, bool *out, qn_error *err);
/* Walking a string array by index is O(1): offsets are built when the file is opened. */
QN_API qn_status qn_gguf_get_str(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, qn_gguf_str *out,
                                 qn_error *err);

QN_API size_t qn_gguf_n_tensors(const qn_gguf *file);
QN_API const qn_gguf_tensor *qn_gguf_tensor_get(const qn_gguf *file, size_t index); /* file order, parts in order */
QN_API const qn_gguf_tensor *qn_gguf_tensor_find(const qn_gguf *file, const char *name);

/* Loading policy for tensor bytes: QN_GGUF_POLICY(name, "what it does"). */
/* clang-format off */
#define QN_GGUF_POLICY_ROWS(QN_GGUF_POLICY) \
    QN_GGUF_POLICY(lazy,     "pages are read when they are first used") \
    QN_GGUF_POLICY(populate, "everything is read now") \
    QN_GGUF_POLICY(lock,     "everything is read now and kept in memory (mlock)") \
    QN_GGUF_POLICY(ahead,    "the system is asked to read everything in the background; nobody waits for it")
/* clang-format on */
#define QN_GGUF_POLICY_LISTED(name, text) ", " #name
#define QN_GGUF_POLICY_NAMES              (&(QN_GGUF_POLICY_ROWS(QN_GGUF_POLICY_LISTED))[2]) /* "lazy, populate, .." */
typedef enum qn_gguf_policy {
/* clang-format off */
#define QN_GGUF_POLICY_ENUM(name, text) QN_GGUF_##name,
    QN_GGUF_POLICY_ROWS(QN_GGUF_POLICY_ENUM)
#undef QN_GGUF_POLICY_ENUM
    QN_GGUF_POLICY_COUNT
    /* clang-format on */
} qn_gguf_policy;
/* progress may be NULL; false from it ends with cancelled. unsupported for memory, which is loaded already. */
typedef bool (*qn_progress_fn)(void *ctx, uint64_t done, uint64_t total);
QN_API qn_status qn_gguf_load(const qn_gguf *file, qn_gguf_policy policy, qn_progress_fn progress, void *ctx,
                              qn_error *err);
/* By the kernel's word; -1 when it doesn't tell, as it doesn't whoever neither owns a file nor may write it. */
QN_API int64_t qn_gguf_resident_bytes(const qn_gguf *file);

/* Reads all data once: finds tensors with values that are NaN or infinite (as a bad scale makes them) and, after a
 * metadata_only open, those whose data is not there; calls `found`, which may be NULL, once for each (name, text).
 * Returns format when there was any. Overlaps and bounds need no reading: open refuses them. */
typedef void (*qn_gguf_found_fn)(void *ctx, const char *tensor, const char *text);
QN_API qn_status qn_gguf_verify(const qn_gguf *file, qn_gguf_found_fn found, void *ctx, qn_error *err);

/* ---- writing --------------------------------------------------------------------------------- */

/* Declares everything first, then streams tensor data in the order declared: memory stays bounded by the header. Errors
 * are sticky and come out of commit; the target appears only then, whole. Little endian, version 3, alignment 32 unless
 * general.alignment (a u32) is written. Nothing is accepted that opening would refuse (split.* must fit the other
 * parts). */
typedef struct qn_gguf_writer qn_gguf_writer;
QN_API qn_status qn_gguf_writer_create(const char *path, qn_gguf_writer **out, qn_error *err);
QN_API void qn_gguf_write_u32(qn_gguf_writer *w, const char *key, uint32_t value);
QN_API void qn_gguf_write_u64(qn_gguf_writer *w, const char *key, uint64_t value);
QN_API void qn_gguf_write_f32(qn_gguf_writer *w, const char *key, float value);
QN_API void qn_gguf_write_bool(qn_gguf_writer *w, const char *key, bool value);
QN_API void qn_gguf_write_str(qn_gguf_writer *w, const char *key, const char *value);
QN_API void qn_gguf_write_strs(qn_gguf_writer *w, const char *key, const qn_gguf_str *values, uint64_t count);
/* elem: a fixed-size type; values in this machine's byte order. */
QN_API void qn_gguf_write_array(qn_gguf_writer *w, const char *key, qn_gguf_type elem, const void *values,
                                uint64_t count);
/* Copies one entry, or all whose key has the prefix ("" is all, but general.alignment and split.* never), from an open
 * file. */
QN_API void qn_gguf_write_kv(qn_gguf_writer *w, const qn_gguf *from, const qn_gguf_kv *kv);
QN_API void qn_gguf_write_kvs(qn_gguf_writer *w, const qn_gguf *from, const char *prefix);
QN_API void qn_gguf_declare(qn_gguf_writer *w, const char *name, qn_dtype dtype, const qn_shape *shape);
/* Appends bytes of the current tensor, as they lie in a little-endian file; its size must come out exactly before the
 * next one begins. The first call ends declaring. */
QN_API void qn_gguf_write_data(qn_gguf_writer *w, const void *bytes, size_t n);
QN_API qn_status qn_gguf_writer_status(const qn_gguf_writer *w, qn_error *err); /* the sticky error so far */
/* Ends and closes: w is gone on success and on failure. */
QN_API qn_status qn_gguf_writer_commit(qn_gguf_writer *w, qn_error *err);
QN_API void qn_gguf_writer_abort(qn_gguf_writer *w);

#ifdef __cplusplus
}
#endif
#endif
