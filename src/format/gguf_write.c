/* SPDX-License-Identifier: MIT */
/* src/format/gguf_write.c -- writing GGUF: version 3, little endian, whatever machine this is.
 *
 * Everything is declared first and kept as the bytes of the header (memory in proportion to the metadata, never to the
 * tensors), then tensor data streams through in the order declared. The first error sticks and comes out of commit;
 * what the writer accepts, the reader opens. */
#include "format/gguf_writer.h"
#include <string.h>

static bool healthy(const qn_gguf_writer *w) { return w->to.error.status == QN_OK; }

qn_status qn_gguf_writer_create(const char *path, qn_gguf_writer **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_gguf_writer *w = qn__arena_alloc(&arena, sizeof *w);
    if (!w) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *w);
    }
    *w = (qn_gguf_writer){.arena = arena, .alignment = QN_GGUF_DEFAULT_ALIGN};
    const qn_status status = qn__writer_open(path, &w->to.out, err);
    if (status != QN_OK) {
        arena = w->arena;
        qn__arena_deinit(&arena);
        return status;
    }
    *out = w;
    return QN_OK;
}

static void destroy(qn_gguf_writer *w)
{
    qn__str_deinit(&w->kv);
    qn__free(w->keys);
    qn__free(w->tensors);
    qn_arena arena = w->arena;
    qn__arena_deinit(&arena);
}

/* ---- the metadata table ---- */

void qn__gguf_put_le(qn_str *s, uint64_t value, int bytes)
{
    uint8_t raw[8];
    for (int i = 0; i < bytes; i++) raw[i] = (uint8_t)(value >> 8 * i);
    qn__str_append(s, raw, (size_t)bytes);
}

static void put_string(qn_gguf_writer *w, const char *key, const char *text, size_t n)
{
    char subject[QN_GGUF_SUBJECT_BYTES];
    const size_t good = text ? qn__utf8_valid(text, n) : 0;
    if (good == n) {
        qn__gguf_put_le(&w->kv, n, 8);
        qn__str_append(&w->kv, text, n);
        return;
    }
    qn__gguf_subject(subject, "key", key, strlen(key));
    if (!text)
        QN_WRITER_FAIL(w, invalid, "%s: found no string (NULL), expected UTF-8 text", subject);
    else
        QN_WRITER_FAIL(w, invalid, "%s: found byte 0x%02x at %zu of a string, expected UTF-8", subject,
                       (unsigned char)text[good], good);
}

/* Keys and names alike: usable, not too late. */
static bool may_declare(qn_gguf_writer *w, const char *what, const char *name, uint64_t max)
{
    char subject[QN_GGUF_SUBJECT_BYTES];
    if (!healthy(w)) return false;
    const size_t n = name ? strlen(name) : 0;
    const char *fault = qn__gguf_name_fault(name, n, max);
    if (fault)
        QN_WRITER_FAIL(w, invalid, "%s: found %s in its name (%zu bytes), expected 1 to %llu bytes of UTF-8 text",
                       qn__gguf_subject(subject, what, name ? name : "", n), fault, n, (unsigned long long)max);
    if (w->streaming)
        QN_WRITER_FAIL(w, state, "%s: declared after tensor data began, expected before",
                       qn__gguf_subject(subject, what, name, n));
    return healthy(w);
}

bool qn__gguf_begin_kv(qn_gguf_writer *w, const char *key, qn_gguf_type type)
{
    if (!may_declare(w, "key", key, QN_GGUF_MAX_KEY)) return false;
    if (qn__gguf_is_alignment(key) && type != QN_GGUF_u32) {
        QN_WRITER_FAIL(w, invalid, "key \"general.alignment\": found type %s, expected u32", qn_gguf_type_name(type));
        return false;
    }
    void *items = w->keys;
    if (qn__gguf_grow(&items, &w->cap_keys, w->n_keys, sizeof *w->keys, &w->to.error) != QN_OK) return false;
    w->keys = items;
    w->keys[w->n_keys] = qn__arena_strdup(&w->arena, key);
    if (!w->keys[w->n_keys]) {
        QN_WRITER_FAIL(w, nomem, "out of memory: a key of %zu bytes", strlen(key));
        return false;
    }
    w->n_keys++;
    qn__gguf_put_le(&w->kv, strlen(key), 8);
    qn__str_append(&w->kv, key, strlen(key));
    qn__gguf_put_le(&w->kv, type, 4);
    return true;
}

void qn__gguf_end_kv(qn_gguf_writer *w)
{
    if (w->kv.failed) QN_WRITER_FAIL(w, nomem, "out of memory: metadata of more than %zu bytes", w->kv.len);
    if (w->kv.len > QN_GGUF_MAX_HEADER)
        QN_WRITER_FAIL(w, limit, "found %zu bytes of metadata, expected at most %llu", w->kv.len,
                       (unsigned long long)QN_GGUF_MAX_HEADER);
}

static void set_alignment(qn_gguf_writer *w, uint64_t value)
{
    if (value < QN_GGUF_MIN_ALIGN || value > QN_GGUF_MAX_ALIGN || (value & (value - 1)) != 0)
        QN_WRITER_FAIL(w, invalid, "key \"general.alignment\": found %llu, expected a power of two from %d to %llu",
                       (unsigned long long)value, QN_GGUF_MIN_ALIGN, (unsigned long long)QN_GGUF_MAX_ALIGN);
    else
        w->alignment = (uint32_t)value;
}

bool qn__gguf_is_alignment(const char *key) { return strcmp(key, "general.alignment") == 0; }

void qn__gguf_write_scalar(qn_gguf_writer *w, const char *key, qn_gguf_type type, uint64_t bits)
{
    if (!qn__gguf_begin_kv(w, key, type)) return;
    if (qn__gguf_is_alignment(key)) set_alignment(w, bits);
    qn__gguf_put_le(&w->kv, bits, qn__gguf_type_bytes(type));
    qn__gguf_end_kv(w);
}

void qn_gguf_write_u32(qn_gguf_writer *w, const char *key, uint32_t value)
{
    qn__gguf_write_scalar(w, key, QN_GGUF_u32, value);
}
void qn_gguf_write_u64(qn_gguf_writer *w, const char *key, uint64_t value)
{
    qn__gguf_write_scalar(w, key, QN_GGUF_u64, value);
}
void qn_gguf_write_bool(qn_gguf_writer *w, const char *key, bool value)
{
    qn__gguf_write_scalar(w, key, QN_GGUF_bool, value);
}

void qn_gguf_write_f32(qn_gguf_writer *w, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    qn__gguf_write_scalar(w, key, QN_GGUF_f32, bits);
}

void qn_gguf_write_str(qn_gguf_writer *w, const char *key, const char *value)
{
    if (!qn__gguf_begin_kv(w, key, QN_GGUF_str)) return;
    put_string(w, key, value, value ? strlen(value) : 1); /* a missing string is refused, not written as empty */
    qn__gguf_end_kv(w);
}

void qn_gguf_write_strs(qn_gguf_writer *w, const char *key, const qn_gguf_str *values, uint64_t count)
{
    if (!qn__gguf_begin_kv(w, key, QN_GGUF_arr)) return;
    if (count > QN_GGUF_MAX_STRINGS)
        QN_WRITER_FAIL(w, limit, "key \"%.100s\": found %llu strings, expected at most %llu", key,
                       (unsigned long long)count, (unsigned long long)QN_GGUF_MAX_STRINGS);
    qn__gguf_put_le(&w->kv, QN_GGUF_str, 4);
    qn__gguf_put_le(&w->kv, count, 8);
    for (uint64_t i = 0; i < count && healthy(w); i++) {
        put_string(w, key, values[i].data, values[i].len);
        qn__gguf_end_kv(w);
    }
    qn__gguf_end_kv(w);
}

void qn_gguf_write_array(qn_gguf_writer *w, const char *key, qn_gguf_type elem, const void *values, uint64_t count)
{
    const int bytes = qn__gguf_type_bytes(elem);
    const uint8_t *p = values;
    const uint16_t probe = 1;
    const bool host_big = *(const uint8_t *)&probe == 0;
    if (!qn__gguf_begin_kv(w, key, QN_GGUF_arr)) return;
    if (bytes == 0 || count > QN_GGUF_MAX_HEADER / (uint64_t)bytes) {
        QN_WRITER_FAIL(w, invalid,
                       "key \"%.100s\": found an array of %llu %s, expected a fixed-size type and at most 256 MiB", key,
                       (unsigned long long)count, qn_gguf_type_name(elem));
        return;
    }
    qn__gguf_put_le(&w->kv, elem, 4);
    qn__gguf_put_le(&w->kv, count, 8);
    if (!host_big) qn__str_append(&w->kv, p, count * (uint64_t)bytes);
    for (uint64_t i = 0; i < count && host_big; i++)
        qn__gguf_put_le(&w->kv, qn__gguf_load(p + i * (uint64_t)bytes, bytes, true), bytes);
    for (uint64_t i = 0; i < count && elem == QN_GGUF_bool; i++)
        if (p[i] > 1)
            QN_WRITER_FAIL(w, invalid, "key \"%.100s\": found %d in a bool as element %llu, expected 0 or 1", key, p[i],
                           (unsigned long long)i);
    qn__gguf_end_kv(w);
}

/* ---- tensors ---- */

static bool storable(qn_gguf_writer *w, const char *name, qn_dtype dtype, const qn_shape *shape, uint64_t *bytes)
{
    char subject[QN_GGUF_SUBJECT_BYTES], text[200];
    const qn_dtype_info *info = qn_dtype_get(dtype);
    size_t total;
    qn__gguf_subject(subject, "tensor", name, strlen(name));
    if (info->gguf_id < 0) {
        QN_WRITER_FAIL(w, unsupported, "%s: found type %s, expected one that a GGUF file can hold", subject,
                       info->name);
        return false;
    }
    bool good = shape->rank >= 1 && shape->rank <= QN_MAX_RANK;
    for (int i = 0; good && i < shape->rank; i++) good = shape->dim[i] >= 1;
    const int64_t numel = good ? qn_shape_numel(shape) : -1;
    const int64_t row = numel > 0 ? shape->dim[shape->rank - 1] : 1, row_bytes = qn_dtype_row_bytes(dtype, row);
    if (numel > 0 && row_bytes > 0 && qn__mul_size((size_t)row_bytes, (size_t)(numel / row), &total) &&
        total <= INT64_MAX) {
        *bytes = total;
        return true;
    }
    QN_WRITER_FAIL(w, invalid,
                   "%s: found the shape %s of type %s, expected 1 to %d dimensions of at least 1, rows of a multiple "
                   "of %d, fewer than 2^63 bytes",
                   subject, qn_shape_print(shape, text, sizeof text), info->name, QN_MAX_RANK, info->block_elems);
    return false;
}

void qn_gguf_declare(qn_gguf_writer *w, const char *name, qn_dtype dtype, const qn_shape *shape)
{
    uint64_t bytes;
    if (!may_declare(w, "tensor", name, QN_GGUF_MAX_NAME) || !storable(w, name, dtype, shape, &bytes)) return;
    void *items = w->tensors;
    if (qn__gguf_grow(&items, &w->cap_tensors, w->n_tensors, sizeof *w->tensors, &w->to.error) != QN_OK) return;
    w->tensors = items;
    const char *copy = qn__arena_strdup(&w->arena, name);
    if (!copy)
        QN_WRITER_FAIL(w, nomem, "out of memory: a name of %zu bytes", strlen(name));
    else
        w->tensors[w->n_tensors++] = (qn_gguf_declared){copy, dtype, *shape, bytes, 0};
}

static void check_twice(qn_gguf_writer *w, const char *what, const void *items, size_t stride, size_t n)
{
    qn_name_index index;
    uint32_t first, second;
    char subject[QN_GGUF_SUBJECT_BYTES];
    if (!healthy(w) || qn__names_build(&index, &w->arena, items, stride, n, &w->to.error) != QN_OK) return;
    if (!qn__names_twice(&index, &first, &second)) return;
    const char *name;
    memcpy(&name, (const char *)items + second * stride, sizeof name);
    QN_WRITER_FAIL(w, invalid, "%s: declared as number %u and again as number %u, expected once",
                   qn__gguf_subject(subject, what, name, strlen(name)), first, second);
}

/* Gives every tensor its offset, one after the other, each aligned. */
static void lay_out(qn_gguf_writer *w)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        qn_gguf_declared *t = &w->tensors[i];
        if (t->size_bytes > INT64_MAX - offset - w->alignment) {
            char subject[QN_GGUF_SUBJECT_BYTES];
            QN_WRITER_FAIL(w, invalid, "%s: found the file to pass 2^63 bytes with it, expected fewer",
                           qn__gguf_subject(subject, "tensor", t->name, strlen(t->name)));
            return;
        }
        t->offset = offset;
        offset = qn__align_up(offset + t->size_bytes, w->alignment);
    }
}

static void put_infos(qn_gguf_writer *w)
{
    for (size_t i = 0; i < w->n_tensors; i++) {
        const qn_gguf_declared *t = &w->tensors[i];
        qn__gguf_put_le(&w->kv, strlen(t->name), 8);
        qn__str_append(&w->kv, t->name, strlen(t->name));
        qn__gguf_put_le(&w->kv, (uint64_t)t->shape.rank, 4);
        for (int d = t->shape.rank - 1; d >= 0; d--) qn__gguf_put_le(&w->kv, (uint64_t)t->shape.dim[d], 8);
        qn__gguf_put_le(&w->kv, (uint64_t)qn_dtype_get(t->dtype)->gguf_id, 4);
        qn__gguf_put_le(&w->kv, t->offset, 8);
    }
}

static void pad(qn_gguf_writer *w)
{
    static const uint8_t zeros[64];
    uint64_t left = (0 - qn__writer_tell(w->to.out)) & (w->alignment - 1);
    while (left > 0) {
        const size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;
        qn__writer_put(w->to.out, zeros, n);
        left -= n;
    }
}

bool qn__gguf_build_header(qn_gguf_writer *w, qn_str *first)
{
    check_twice(w, "key", w->keys, sizeof *w->keys, w->n_keys);
    check_twice(w, "tensor", w->tensors, sizeof *w->tensors, w->n_tensors);
    lay_out(w);
    if (w->n_keys > QN_GGUF_MAX_KV || w->n_tensors > QN_GGUF_MAX_TENSORS)
        QN_WRITER_FAIL(w, limit, "found %zu keys and %zu tensors, expected at most %llu and %llu", w->n_keys,
                       w->n_tensors, (unsigned long long)QN_GGUF_MAX_KV, (unsigned long long)QN_GGUF_MAX_TENSORS);
    if (!healthy(w)) return false;
    qn__str_append(first, "GGUF", 4);
    qn__gguf_put_le(first, 3, 4);
    qn__gguf_put_le(first, w->n_tensors, 8);
    qn__gguf_put_le(first, w->n_keys, 8);
    put_infos(w);
    qn__gguf_end_kv(w);
    if (first->failed) QN_WRITER_FAIL(w, nomem, "out of memory: the first bytes of a header");
    return healthy(w);
}

/* The header goes out: 24 bytes, the metadata table, the tensor table, padding. */
static bool begin_data(qn_gguf_writer *w)
{
    if (!healthy(w)) return false;
    if (w->streaming) return true;
    qn_str header = {0};
    if (qn__gguf_build_header(w, &header)) {
        qn__writer_put(w->to.out, header.data, header.len);
        qn__writer_put(w->to.out, w->kv.data, w->kv.len);
        if (w->n_tensors > 0) pad(w);
        w->streaming = true;
    }
    qn__str_deinit(&header);
    qn__str_deinit(&w->kv);
    return healthy(w);
}

/* Whose data comes; begin_data was called. */
static qn_stream_tensor next_tensor(const qn_gguf_writer *w)
{
    if (w->to.current == w->n_tensors) return (qn_stream_tensor){.n_tensors = w->n_tensors};
    const qn_gguf_declared *t = &w->tensors[w->to.current];
    return (qn_stream_tensor){t->name, t->size_bytes, w->n_tensors};
}

void qn_gguf_write_data(qn_gguf_writer *w, const void *bytes, size_t n)
{
    if (!begin_data(w) || n == 0) return;
    const qn_stream_tensor t = next_tensor(w);
    if (!qn__stream_put(&w->to, t, bytes, n) || w->to.written < t.size_bytes) return;
    pad(w);
    w->to.current++;
    w->to.written = 0;
}

qn_status qn_gguf_writer_status(const qn_gguf_writer *w, qn_error *err) { return qn__stream_status(&w->to, err); }

qn_status qn_gguf_writer_commit(qn_gguf_writer *w, qn_error *err)
{
    const qn_stream_tensor none = {0};
    const bool begun = !qn__writer_failed(w->to.out) && begin_data(w);
    const qn_status status = qn__stream_commit(&w->to, begun ? next_tensor(w) : none, err);
    destroy(w);
    return status;
}

void qn_gguf_writer_abort(qn_gguf_writer *w)
{
    if (!w) return;
    qn__writer_abort(w->to.out);
    destroy(w);
}
