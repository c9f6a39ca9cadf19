/* SPDX-License-Identifier: MIT */
/* src/format/safetensors_read.c -- a safetensors header to a table of tensors: 8 bytes of length, a JSON object, then
 * data. Work and memory are in proportion to the header that exists; no byte of data is touched. */
#include "format/json.h"
#include "format/safetensors_file.h"
#include "base/str.h"
#include <string.h>

#define BAD(j, status, offset, ...) QN_JSON_BAD((j), status, (offset), __VA_ARGS__)

static const qn_safetensors_type types[] = {
/* clang-format off */
#define QN_SAFETENSORS_TYPE(name, bits, dtype) {#name, bits, QN_DTYPE_##dtype},
/* clang-format on */
#include "format/safetensors_types.def"
#undef QN_SAFETENSORS_TYPE
};
#define N_TYPES ((int)(sizeof types / sizeof *types))

const qn_safetensors_type *qn__safetensors_type_get(int row) { return &types[row]; }

int qn__safetensors_type_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0) return i;
    return -1;
}

int qn__safetensors_type_of(qn_dtype dtype)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].dtype == dtype && dtype != QN_DTYPE_COUNT) return i;
    return -1;
}

/* ---- one tensor ---- */

typedef struct entry {
    bool has_type, has_shape, has_offsets;
    int type;
    uint64_t begin, end, offsets_at;
    qn_safetensors_info *info;
} entry;

static qn_status read_type(qn_json *j, const qn_safetensors *file, entry *e)
{
    qn_json_str s;
    char name[32], quoted[48];
    QN_TRY(qn__json_string(j, &s));
    size_t n = 0;
    if (s.n < sizeof name) n = qn__json_decode(&s, name);
    name[n] = '\0';
    e->type = n > 0 && strlen(name) == n ? qn__safetensors_type_find(name) : -1;
    if (e->type < 0)
        return BAD(j, unsupported, s.at, "found type \"%s\", expected one that safetensors files have",
                   qn__str_quote(quoted, sizeof quoted, s.raw, s.n));
    e->info->pub.type = types[e->type].name;
    e->info->pub.dtype = types[e->type].dtype;
    if (e->info->pub.dtype == QN_DTYPE_COUNT && !file->keep_unsupported)
        return BAD(j, unsupported, s.at,
                   "found type %s, expected one that Quern computes with (F64 F32 F16 BF16 I64 I32 I16 I8 U8 "
                   "BOOL)",
                   name);
    return QN_OK;
}

static qn_status read_shape(qn_json *j, qn_shape *shape)
{
    bool more;
    uint64_t dim;
    const size_t at = j->pos;
    *shape = (qn_shape){0};
    QN_TRY(qn__json_open(j, '['));
    for (;;) {
        QN_TRY(qn__json_next(j, '[', &more));
        if (!more) break;
        if (shape->rank == QN_MAX_RANK)
            return BAD(j, limit, j->base + j->pos, "found more dimensions, expected at most %d", QN_MAX_RANK);
        QN_TRY(qn__json_u64(j, &dim));
        if (dim > INT64_MAX)
            return BAD(j, format, j->base + at, "found a dimension of %llu, expected below 2^63",
                       (unsigned long long)dim);
        shape->dim[shape->rank++] = (int64_t)dim;
    }
    return QN_OK;
}

static qn_status read_offsets(qn_json *j, entry *e)
{
    bool more;
    uint64_t *const offset[] = {&e->begin, &e->end};
    e->offsets_at = j->base + j->pos;
    QN_TRY(qn__json_open(j, '['));
    for (int i = 0; i < 2; i++) {
        QN_TRY(qn__json_next(j, '[', &more));
        if (!more) return BAD(j, format, e->offsets_at, "found %d data offsets, expected 2", i);
        QN_TRY(qn__json_u64(j, offset[i]));
    }
    QN_TRY(qn__json_next(j, '[', &more));
    return more ? BAD(j, format, e->offsets_at, "found more data offsets, expected 2") : QN_OK;
}

static qn_status once(qn_json *j, const qn_json_str *key, bool *has)
{
    if (*has) return BAD(j, format, key->at, "found \"%.*s\" again, expected it once", (int)key->n, key->raw);
    *has = true;
    return QN_OK;
}

/* Size, shape, type and offsets against each other, and against the data that is there. */
static qn_status check_tensor(qn_json *j, const entry *e, uint64_t data_bytes, qn_safetensors_info *t)
{
    char shape[200];
    uint64_t bits;
    const int width = types[e->type].bits;
    qn_shape filled = t->pub.shape; /* empty dimensions as 1: strides must not overflow behind a zero either */
    for (int i = 0; i < filled.rank; i++) filled.dim[i] += filled.dim[i] == 0;
    const int64_t numel = qn_shape_numel(&filled) < 0 ? -1 : qn_shape_numel(&t->pub.shape);
    qn_shape_print(&t->pub.shape, shape, sizeof shape);
    if (numel < 0 || __builtin_mul_overflow((uint64_t)numel, (uint64_t)width, &bits) || bits > INT64_MAX)
        return BAD(j, format, t->at, "found the shape %s of %s, expected fewer than 2^60 bytes", shape, t->pub.type);
    if (bits % 8 != 0)
        return BAD(j, format, t->at, "found the shape %s of %s, expected whole bytes", shape, t->pub.type);
    if (e->begin > e->end || e->end > data_bytes)
        return BAD(j, format, e->offsets_at,
                   "found data offsets %llu and %llu, expected them in order and at most %llu",
                   (unsigned long long)e->begin, (unsigned long long)e->end, (unsigned long long)data_bytes);
    if (e->end - e->begin != bits / 8)
        return BAD(j, format, e->offsets_at, "found %llu bytes of data, expected %llu for the shape %s of %s",
                   (unsigned long long)(e->end - e->begin), (unsigned long long)(bits / 8), shape, t->pub.type);
    t->pub.size_bytes = bits / 8;
    return QN_OK;
}

static qn_status read_tensor(qn_json *j, const qn_safetensors *file, const qn_safetensors_part *part,
                             qn_safetensors_info *t)
{
    entry e = {.info = t};
    bool more;
    QN_TRY(qn__json_open(j, '{'));
    for (;;) {
        qn_json_str key;
        QN_TRY(qn__json_next(j, '{', &more));
        if (!more) break;
        QN_TRY(qn__json_key(j, &key));
        if (qn__json_equals(&key, "dtype")) {
            QN_TRY(once(j, &key, &e.has_type));
            QN_TRY(read_type(j, file, &e));
        } else if (qn__json_equals(&key, "shape")) {
            QN_TRY(once(j, &key, &e.has_shape));
            QN_TRY(read_shape(j, &t->pub.shape));
        } else if (qn__json_equals(&key, "data_offsets")) {
            QN_TRY(once(j, &key, &e.has_offsets));
            QN_TRY(read_offsets(j, &e));
        } else {
            QN_TRY(qn__json_skip(j)); /* as the format's own library does */
        }
    }
    if (!e.has_type || !e.has_shape || !e.has_offsets)
        return BAD(j, format, t->at, "found no \"%s\", expected dtype, shape and data_offsets",
                   !e.has_type    ? "dtype"
                   : !e.has_shape ? "shape"
                                  : "data_offsets");
    const uint64_t start = j->base + j->size;
    QN_TRY(check_tensor(j, &e, part->size - start, t));
    t->begin = e.begin;
    t->pub.file_offset = start + e.begin;
    t->pub.data = part->data + t->pub.file_offset;
    return QN_OK;
}

/* Decodes a name and says in the subject that it is being read. */
static qn_status take_name(qn_json *j, qn_arena *arena, const char *what, const qn_json_str *s, const char **out)
{
    size_t len = 0;
    const char *name = qn__json_take(arena, s, &len);
    if (!name) return QN_FAIL_NOMEM(j->err, s->n + 1);
    qn__gguf_subject(j->subject, what, name, len < 200 ? len : 200);
    const char *fault = qn__gguf_name_fault(name, len, QN_SAFETENSORS_MAX_NAME);
    if (fault)
        return BAD(j, format, s->at, "found %s in its name (%zu bytes), expected 1 to %d bytes of UTF-8 text", fault,
                   len, QN_SAFETENSORS_MAX_NAME);
    *out = name;
    return QN_OK;
}

static qn_status add_tensor(qn_json *j, qn_safetensors *file, int part, const qn_json_str *key)
{
    void *items = file->tensors;
    QN_TRY(qn__gguf_grow(&items, &file->cap_tensors, file->n_tensors, sizeof *file->tensors, j->err));
    file->tensors = items;
    qn_safetensors_info *t = &file->tensors[file->n_tensors];
    *t = (qn_safetensors_info){.pub = {.part = part}, .at = key->at};
    QN_TRY(take_name(j, &file->arena, "tensor", key, &t->pub.name));
    if (file->n_tensors == QN_SAFETENSORS_MAX_TENSORS)
        return BAD(j, limit, key->at, "found more tensors, expected at most %zu", QN_SAFETENSORS_MAX_TENSORS);
    QN_TRY(read_tensor(j, file, &file->parts[part], t));
    file->n_tensors++;
    return QN_OK;
}

/* ---- metadata ---- */

static qn_status read_meta(qn_json *j, qn_safetensors *file, bool keep)
{
    bool more;
    qn_json_str key, value;
    QN_TRY(qn__json_open(j, '{'));
    for (;;) {
        QN_TRY(qn__json_next(j, '{', &more));
        if (!more) break;
        qn_safetensors_meta meta;
        QN_TRY(qn__json_key(j, &key));
        if (!keep) { /* of the other parts it only has to be right */
            QN_TRY(qn__json_string(j, &value));
            continue;
        }
        QN_TRY(take_name(j, &file->arena, "__metadata__", &key, &meta.key));
        QN_TRY(qn__json_string(j, &value));
        meta.value = qn__json_take(&file->arena, &value, &meta.len);
        if (!meta.value) return QN_FAIL_NOMEM(j->err, value.n + 1);
        void *items = file->meta;
        QN_TRY(qn__gguf_grow(&items, &file->cap_meta, file->n_meta, sizeof *file->meta, j->err));
        file->meta = items;
        file->meta[file->n_meta++] = meta;
    }
    if (!keep) return QN_OK;
    uint32_t first, second;
    QN_TRY(qn__names_build(&file->meta_index, &file->arena, file->meta, sizeof *file->meta, file->n_meta, j->err));
    if (!qn__names_twice(&file->meta_index, &first, &second)) return QN_OK;
    qn__gguf_subject(j->subject, "__metadata__", file->meta[first].key, strlen(file->meta[first].key));
    return BAD(j, format, j->base, "found this key as number %u and again as number %u, expected it once", first,
               second);
}

/* ---- the whole ---- */

/* By where the data lies; empty tensors before what begins in the same place, and among themselves as in the header. */
static bool info_less(const void *ctx, size_t a, size_t b)
{
    const qn_safetensors_info *t = ctx, *x = &t[a], *y = &t[b];
    if (x->begin != y->begin) return x->begin < y->begin;
    if (x->pub.size_bytes != y->pub.size_bytes) return x->pub.size_bytes < y->pub.size_bytes;
    return x->at < y->at;
}

static void info_swap(void *ctx, size_t a, size_t b)
{
    qn_safetensors_info *t = ctx, tmp = t[a];
    t[a] = t[b];
    t[b] = tmp;
}

static qn_status check_layout(qn_json *j, qn_safetensors_info *t, size_t n, uint64_t data_bytes)
{
    uint64_t end = 0;
    bool ordered = true;
    for (size_t i = 1; i < n && ordered; i++) ordered = info_less(t, i - 1, i);
    if (!ordered) qn__sort(t, n, info_less, info_swap);
    for (size_t i = 0; i < n; end += t[i++].pub.size_bytes) {
        if (t[i].begin == end) continue;
        qn__gguf_subject(j->subject, "tensor", t[i].pub.name, strlen(t[i].pub.name));
        if (t[i].begin > end)
            return BAD(j, format, t[i].at,
                       "found its data at %llu, expected it at %llu, where the data before it ends (no holes)",
                       (unsigned long long)t[i].begin, (unsigned long long)end);
        return BAD(j, format, t[i].at, "found its data at %llu, inside that of \"%.100s\", expected no overlap",
                   (unsigned long long)t[i].begin, t[i - 1].pub.name);
    }
    strcpy(j->subject, "data");
    if (end != data_bytes)
        return BAD(j, format, j->base + j->size, "found %llu bytes, expected the %llu that the tensors have",
                   (unsigned long long)data_bytes, (unsigned long long)end);
    return QN_OK;
}

static qn_status read_object(qn_json *j, qn_safetensors *file, int part)
{
    bool more, has_meta = false;
    QN_TRY(qn__json_open(j, '{'));
    for (;;) {
        qn_json_str key;
        strcpy(j->subject, "header");
        QN_TRY(qn__json_next(j, '{', &more));
        if (!more) break;
        QN_TRY(qn__json_key(j, &key));
        if (!qn__json_equals(&key, "__metadata__")) {
            QN_TRY(add_tensor(j, file, part, &key));
            continue;
        }
        QN_TRY(once(j, &key, &has_meta));
        QN_TRY(read_meta(j, file, part == 0));
    }
    return qn__json_end(j);
}

static void mark_direct(qn_safetensors_info *t)
{
    const uint16_t probe = 1;
    const bool host_little = *(const uint8_t *)&probe == 1;
    const qn_dtype_info *info = qn_dtype_get(t->pub.dtype);
    const size_t bytes = (size_t)info->block_bytes;
    t->pub.direct = bytes > 0 && info->class_ != QN_CLASS_boolean && (host_little || bytes == 1) &&
                    (uintptr_t)t->pub.data % bytes == 0;
}

qn_status qn__safetensors_read_part(qn_safetensors *file, int index, qn_error *err)
{
    qn_safetensors_part *part = &file->parts[index];
    const size_t first = file->n_tensors;
    const uint64_t length = part->size >= 8 ? qn__gguf_load(part->data, 8, false) : 0;
    if (part->size < 10)
        return QN_GGUF_BAD(err, format, part->label, "header", (uint64_t)0,
                           "found %llu bytes, expected a length of 8 bytes and an "
                           "object behind it",
                           (unsigned long long)part->size);
    if (length > QN_SAFETENSORS_MAX_HEADER || length > part->size - 8) {
        const uint64_t room = part->size - 8 < QN_SAFETENSORS_MAX_HEADER ? part->size - 8 : QN_SAFETENSORS_MAX_HEADER;
        return QN_GGUF_BAD(err, format, part->label, "header", (uint64_t)0,
                           "found a length of %llu bytes, expected at most %llu", (unsigned long long)length,
                           (unsigned long long)room);
    }
    qn_json j;
    const char *text = (const char *)part->data + 8;
    const size_t good = qn__utf8_valid(text, length);
    qn__json_init(&j, text, length, 8, part->label, err);
    if (good != length)
        return BAD(&j, format, 8 + good, "found byte 0x%02x, expected UTF-8", (unsigned char)text[good]);
    if (length == 0 || text[0] != '{') return qn__json_unexpected(&j, "an object, without white space before it");
    QN_TRY(read_object(&j, file, index));
    qn_safetensors_info *own = file->n_tensors > first ? &file->tensors[first] : NULL;
    QN_TRY(check_layout(&j, own, file->n_tensors - first, part->size - 8 - length));
    for (size_t i = first; i < file->n_tensors; i++) mark_direct(&file->tensors[i]);
    return QN_OK;
}
