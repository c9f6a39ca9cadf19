/* SPDX-License-Identifier: MIT */
/* src/format/safetensors_write.c -- writing safetensors: the header as JSON padded with spaces to a multiple of 8, then
 * the data of the tensors without holes. The first error sticks and comes out of commit; what the writer accepts, the
 * reader opens. */
#include "format/safetensors_file.h"
#include "format/stream.h"
#include "base/str.h"
#include <string.h>

typedef struct declared {
    const char *name; /* first, for the name index */
    int type;         /* row of safetensors_types.def */
    qn_shape shape;
    uint64_t size_bytes;
} declared;

typedef struct meta {
    const char *key; /* first, for the name index */
    const char *value;
} meta;

struct qn_safetensors_writer {
    qn_arena arena; /* this struct is its first allocation */
    qn_stream to;
    meta *metas;
    size_t n_metas, cap_metas;
    declared *tensors;
    size_t n_tensors, cap_tensors;
    uint32_t *order; /* [n_tensors] once the header is out: whose data lies first */
};

#define WRITER_FAIL(w, status_, ...) QN_STREAM_FAIL(&(w)->to, status_, __VA_ARGS__)

static bool healthy(const qn_safetensors_writer *w) { return w->to.error.status == QN_OK; }

qn_status qn_safetensors_writer_create(const char *path, qn_safetensors_writer **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_safetensors_writer *w = qn__arena_alloc(&arena, sizeof *w);
    if (!w) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *w);
    }
    w->arena = arena;
    const qn_status status = qn__writer_open(path, &w->to.out, err);
    if (status != QN_OK) {
        arena = w->arena;
        qn__arena_deinit(&arena);
        return status;
    }
    *out = w;
    return QN_OK;
}

static void destroy(qn_safetensors_writer *w)
{
    qn__free(w->metas);
    qn__free(w->tensors);
    qn__free(w->order);
    qn_arena arena = w->arena;
    qn__arena_deinit(&arena);
}

/* ---- declaring ---- */

static const char *accept_name(qn_safetensors_writer *w, const char *what, const char *name)
{
    char subject[QN_GGUF_SUBJECT_BYTES];
    if (!healthy(w)) return NULL;
    const size_t n = name ? strlen(name) : 0;
    const char *fault = qn__gguf_name_fault(name, n, QN_SAFETENSORS_MAX_NAME);
    qn__gguf_subject(subject, what, name ? name : "", n < 200 ? n : 200);
    if (fault)
        WRITER_FAIL(w, invalid, "%s: found %s in its name (%zu bytes), expected 1 to %d bytes of UTF-8 text", subject,
                    fault, n, QN_SAFETENSORS_MAX_NAME);
    if (w->order) WRITER_FAIL(w, state, "%s: declared after tensor data began, expected before", subject);
    if (!healthy(w)) return NULL;
    const char *copy = qn__arena_strdup(&w->arena, name);
    if (!copy) WRITER_FAIL(w, nomem, "out of memory: a name of %zu bytes", n);
    return copy;
}

void qn_safetensors_write_meta(qn_safetensors_writer *w, const char *key, const char *value)
{
    char subject[QN_GGUF_SUBJECT_BYTES];
    void *items = w->metas;
    const char *name = accept_name(w, "__metadata__", key);
    if (!name) return;
    const size_t n = value ? strlen(value) : 0, good = qn__utf8_valid(value, n);
    if (!value || good != n) {
        WRITER_FAIL(w, invalid, "%s: found %s, expected UTF-8 text",
                    qn__gguf_subject(subject, "__metadata__", key, strlen(key)),
                    value ? "other bytes in its value" : "no value");
        return;
    }
    if (qn__gguf_grow(&items, &w->cap_metas, w->n_metas, sizeof *w->metas, &w->to.error) != QN_OK) return;
    w->metas = items;
    const char *copy = qn__arena_strdup(&w->arena, value);
    if (!copy)
        WRITER_FAIL(w, nomem, "out of memory: a value of %zu bytes", n);
    else
        w->metas[w->n_metas++] = (meta){name, copy};
}

void qn_safetensors_declare(qn_safetensors_writer *w, const char *name, qn_dtype dtype, const qn_shape *shape)
{
    char subject[QN_GGUF_SUBJECT_BYTES], text[200];
    void *items = w->tensors;
    const char *copy = accept_name(w, "tensor", name);
    if (!copy) return;
    const int type = qn__safetensors_type_of(dtype);
    const int64_t numel = qn_shape_numel(shape);
    uint64_t bytes = 0;
    qn__gguf_subject(subject, "tensor", name, strlen(name));
    if (type < 0)
        WRITER_FAIL(w, unsupported,
                    "%s: found type %s, expected one that a safetensors file can hold (F64 F32 F16 BF16 I64 I32 I16 "
                    "I8 U8 BOOL)",
                    subject, qn_dtype_get(dtype)->name);
    else if (numel < 0 || __builtin_mul_overflow((uint64_t)numel, (uint64_t)qn_dtype_get(dtype)->block_bytes, &bytes) ||
             bytes > INT64_MAX / 8)
        WRITER_FAIL(w, invalid, "%s: found the shape %s of %s, expected fewer than 2^60 bytes", subject,
                    qn_shape_print(shape, text, sizeof text), qn_dtype_get(dtype)->name);
    else if (strcmp(name, "__metadata__") == 0)
        WRITER_FAIL(w, invalid, "%s: found a name that the format keeps for itself, expected another", subject);
    else if (w->n_tensors == QN_SAFETENSORS_MAX_TENSORS)
        WRITER_FAIL(w, limit, "%s: found more tensors, expected at most %zu", subject, QN_SAFETENSORS_MAX_TENSORS);
    if (!healthy(w) || qn__gguf_grow(&items, &w->cap_tensors, w->n_tensors, sizeof *w->tensors, &w->to.error) != QN_OK)
        return;
    w->tensors = items;
    w->tensors[w->n_tensors++] = (declared){copy, type, *shape, bytes};
}

/* ---- the header ---- */

static void check_twice(qn_safetensors_writer *w, const char *what, const void *items, size_t stride, size_t n)
{
    qn_name_index index;
    uint32_t first, second;
    char subject[QN_GGUF_SUBJECT_BYTES];
    if (!healthy(w) || qn__names_build(&index, &w->arena, items, stride, n, &w->to.error) != QN_OK) return;
    if (!qn__names_twice(&index, &first, &second)) return;
    const char *name;
    memcpy(&name, (const char *)items + second * stride, sizeof name);
    WRITER_FAIL(w, invalid, "%s: declared as number %u and again as number %u, expected once",
                qn__gguf_subject(subject, what, name, strlen(name)), first, second);
}

static void put_json(qn_str *s, const char *text)
{
    qn__str_putc(s, '"');
    for (const char *p = text; *p; p++) {
        const size_t plain =
            strcspn(p, "\"\\\x01\x02\x03\x04\x05\x06\x07\b\t\n\x0b\f\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19"
                       "\x1a\x1b\x1c\x1d\x1e\x1f");
        qn__str_append(s, p, plain);
        p += plain;
        if (!*p) break;
        static const char short_form[] = "\"\"\\\\\bb\ff\nn\rr\tt";
        const char *form = short_form;
        while (*form && *form != *p) form += 2;
        if (*form)
            qn__str_printf(s, "\\%c", form[1]);
        else
            qn__str_printf(s, "\\u%04x", (unsigned)*p);
    }
    qn__str_putc(s, '"');
}

static void put_metas(const qn_safetensors_writer *w, qn_str *s)
{
    if (w->n_metas == 0) return;
    qn__str_puts(s, "\"__metadata__\":{");
    for (size_t i = 0; i < w->n_metas; i++) {
        if (i > 0) qn__str_putc(s, ',');
        put_json(s, w->metas[i].key);
        qn__str_putc(s, ':');
        put_json(s, w->metas[i].value);
    }
    qn__str_putc(s, '}');
}

/* The entry of one tensor whose data begins at `begin`. */
static void put_tensor(qn_str *s, const declared *t, uint64_t begin)
{
    put_json(s, t->name);
    qn__str_printf(s, ":{\"dtype\":\"%s\",\"shape\":[", qn__safetensors_type_get(t->type)->name);
    for (int d = 0; d < t->shape.rank; d++) qn__str_printf(s, d > 0 ? ",%lld" : "%lld", (long long)t->shape.dim[d]);
    qn__str_printf(s, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
                   (unsigned long long)(begin + t->size_bytes));
}

/* By type, last row first, and as declared within one: a counting pass a row. */
static bool make_order(qn_safetensors_writer *w)
{
    size_t n = 0;
    uint64_t total = 0;
    int last = 0;
    w->order = qn__alloc(w->n_tensors * sizeof *w->order);
    if (!w->order) {
        WRITER_FAIL(w, nomem, "out of memory: %zu tensors", w->n_tensors);
        return false;
    }
    for (size_t i = 0; i < w->n_tensors; i++)
        if (w->tensors[i].type > last) last = w->tensors[i].type;
    for (int type = last; type >= 0; type--)
        for (size_t i = 0; i < w->n_tensors; i++)
            if (w->tensors[i].type == type) w->order[n++] = (uint32_t)i;
    for (size_t i = 0; i < w->n_tensors && total <= INT64_MAX; i++) total += w->tensors[i].size_bytes;
    if (total > INT64_MAX) WRITER_FAIL(w, invalid, "found the tensors to pass 2^63 bytes, expected fewer");
    return healthy(w);
}

static void put_header(qn_safetensors_writer *w)
{
    qn_str s = {0};
    uint64_t begin = 0;
    uint8_t length[8];
    qn__str_append(&s, "{", 1);
    put_metas(w, &s);
    for (size_t i = 0; i < w->n_tensors; i++) {
        const declared *t = &w->tensors[w->order[i]];
        if (i > 0 || w->n_metas > 0) qn__str_putc(&s, ',');
        put_tensor(&s, t, begin);
        begin += t->size_bytes;
    }
    qn__str_putc(&s, '}');
    while (!s.failed && s.len % 8 != 0) qn__str_putc(&s, ' ');
    if (s.failed) WRITER_FAIL(w, nomem, "out of memory: a header of more than %zu bytes", s.len);
    if (s.len > QN_SAFETENSORS_MAX_HEADER)
        WRITER_FAIL(w, limit, "found a header of %zu bytes, expected at most %llu", s.len,
                    (unsigned long long)QN_SAFETENSORS_MAX_HEADER);
    if (healthy(w)) {
        for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)s.len >> 8 * i);
        qn__writer_put(w->to.out, length, sizeof length);
        qn__writer_put(w->to.out, s.data, s.len);
    }
    qn__str_deinit(&s);
}

static void skip_done(qn_safetensors_writer *w)
{
    while (w->to.current < w->n_tensors && w->to.written == w->tensors[w->order[w->to.current]].size_bytes) {
        w->to.current++;
        w->to.written = 0;
    }
}

/* The header goes out with the first question or byte of data. */
static bool begin_data(qn_safetensors_writer *w)
{
    if (!healthy(w)) return false;
    if (w->order) return true;
    check_twice(w, "__metadata__", w->metas, sizeof *w->metas, w->n_metas);
    check_twice(w, "tensor", w->tensors, sizeof *w->tensors, w->n_tensors);
    if (!healthy(w) || !make_order(w)) return false;
    put_header(w);
    skip_done(w); /* empty tensors have no data to wait for */
    return healthy(w);
}

/* ---- data ---- */

size_t qn_safetensors_writer_next(qn_safetensors_writer *w)
{
    if (!begin_data(w)) return SIZE_MAX;
    return w->to.current < w->n_tensors ? w->order[w->to.current] : w->n_tensors;
}

/* Whose data comes; begin_data was called. */
static qn_stream_tensor next_tensor(const qn_safetensors_writer *w)
{
    if (w->to.current == w->n_tensors) return (qn_stream_tensor){.n_tensors = w->n_tensors};
    const declared *t = &w->tensors[w->order[w->to.current]];
    return (qn_stream_tensor){t->name, t->size_bytes, w->n_tensors};
}

void qn_safetensors_write_data(qn_safetensors_writer *w, const void *bytes, size_t n)
{
    if (begin_data(w) && n > 0 && qn__stream_put(&w->to, next_tensor(w), bytes, n)) skip_done(w);
}

qn_status qn_safetensors_writer_status(const qn_safetensors_writer *w, qn_error *err)
{
    return qn__stream_status(&w->to, err);
}

qn_status qn_safetensors_writer_commit(qn_safetensors_writer *w, qn_error *err)
{
    const qn_stream_tensor none = {0};
    const bool begun = !qn__writer_failed(w->to.out) && begin_data(w);
    const qn_status status = qn__stream_commit(&w->to, begun ? next_tensor(w) : none, err);
    destroy(w);
    return status;
}

void qn_safetensors_writer_abort(qn_safetensors_writer *w)
{
    if (!w) return;
    qn__writer_abort(w->to.out);
    destroy(w);
}
