/* SPDX-License-Identifier: MIT */
/* src/format/gguf_kv.c -- metadata values of an open file: found by name, decoded when asked for, never cached.
 *
 * A value lies in the mapping in the file's byte order. Its place was checked when the file was opened; strings are
 * checked once more here, because a file that someone rewrites while it is mapped changes under us. */
#include "format/gguf_file.h"
#include <string.h>

/* What a type's bits mean. One line a type of QN_GGUF_TYPE_ROWS: a new row without one does not compile. */
typedef enum value_kind { KIND_unsigned, KIND_signed, KIND_float, KIND_bool, KIND_string, KIND_array } value_kind;
#define KIND_OF_u8   KIND_unsigned
#define KIND_OF_i8   KIND_signed
#define KIND_OF_u16  KIND_unsigned
#define KIND_OF_i16  KIND_signed
#define KIND_OF_u32  KIND_unsigned
#define KIND_OF_i32  KIND_signed
#define KIND_OF_f32  KIND_float
#define KIND_OF_bool KIND_bool
#define KIND_OF_str  KIND_string
#define KIND_OF_arr  KIND_array
#define KIND_OF_u64  KIND_unsigned
#define KIND_OF_i64  KIND_signed
#define KIND_OF_f64  KIND_float
static const uint8_t kind_of[] = {
#define KIND_ROW(name, id, bytes) [id] = KIND_OF_##name,
    QN_GGUF_TYPE_ROWS(KIND_ROW)
#undef KIND_ROW
};

static qn_status wrong(const qn_gguf_part *part, const qn_gguf_kv *kv, uint64_t offset, const char *expected,
                       qn_error *err)
{
    char subject[QN_GGUF_SUBJECT_BYTES];
    qn__gguf_subject(subject, "key", kv->key, strlen(kv->key));
    const char *of = kv->type == QN_GGUF_arr ? "an array of " : "";
    return QN_GGUF_BAD(err, format, part->label, subject, offset, "found %s%s, expected %s", of,
                       qn_gguf_type_name(kv->elem), expected);
}

static qn_status out_of_range(const qn_gguf_part *part, const qn_gguf_kv *kv, uint64_t index, qn_error *err)
{
    char subject[QN_GGUF_SUBJECT_BYTES];
    qn__gguf_subject(subject, "key", kv->key, strlen(kv->key));
    return QN_GGUF_BAD(err, invalid, part->label, subject, kv->offset, "element %llu was asked for, found %llu in all",
                       (unsigned long long)index, (unsigned long long)kv->count);
}

/* A fixed-size element: its bits, and where it lies. */
typedef struct scalar {
    uint64_t bits;
    uint64_t offset;
    value_kind kind;
    int bytes;
} scalar;

static qn_status get_scalar(const qn_gguf_part *part, const qn_gguf_kv *kv, uint64_t index, const char *expected,
                            scalar *out, qn_error *err)
{
    const int bytes = qn__gguf_type_bytes(kv->elem);
    if (bytes == 0) return wrong(part, kv, kv->offset, expected, err);
    if (index >= kv->count) return out_of_range(part, kv, index, err);
    const uint64_t offset = kv->offset + (kv->type == QN_GGUF_arr ? 12 : 0) + index * (uint64_t)bytes;
    *out = (scalar){qn__gguf_load(part->data + offset, bytes, part->big_endian), offset, (value_kind)kind_of[kv->elem],
                    bytes};
    return QN_OK;
}

static int64_t sign_extend(const scalar *s)
{
    const int unused = 64 - 8 * s->bytes;
    return (int64_t)(s->bits << unused) >> unused;
}

static qn_status does_not_fit(const qn_gguf_part *part, const qn_gguf_kv *kv, const scalar *s, const char *expected,
                              qn_error *err)
{
    char subject[QN_GGUF_SUBJECT_BYTES];
    qn__gguf_subject(subject, "key", kv->key, strlen(kv->key));
    if (s->kind == KIND_signed)
        return QN_GGUF_BAD(err, format, part->label, subject, s->offset, "found %lld, expected %s",
                           (long long)sign_extend(s), expected);
    return QN_GGUF_BAD(err, format, part->label, subject, s->offset, "found %llu, expected %s",
                       (unsigned long long)s->bits, expected);
}

qn_status qn__gguf_part_u64(const qn_gguf_part *part, const qn_gguf_kv *kv, uint64_t index, uint64_t *out,
                            qn_error *err)
{
    scalar s = {0};
    QN_TRY(get_scalar(part, kv, index, "an integer", &s, err));
    if (s.kind != KIND_unsigned && s.kind != KIND_signed) return wrong(part, kv, s.offset, "an integer", err);
    if (s.kind == KIND_signed && sign_extend(&s) < 0) return does_not_fit(part, kv, &s, "an integer of 0 or more", err);
    *out = s.bits; /* not negative, so its sign bits are zero */
    return QN_OK;
}

qn_status qn_gguf_get_u64(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, uint64_t *out, qn_error *err)
{
    return qn__gguf_part_u64(&file->parts[0], kv, index, out, err);
}

qn_status qn_gguf_get_i64(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, int64_t *out, qn_error *err)
{
    const qn_gguf_part *part = &file->parts[0];
    scalar s = {0};
    QN_TRY(get_scalar(part, kv, index, "an integer", &s, err));
    if (s.kind != KIND_unsigned && s.kind != KIND_signed) return wrong(part, kv, s.offset, "an integer", err);
    if (s.kind == KIND_unsigned && s.bits > INT64_MAX) return does_not_fit(part, kv, &s, "an integer below 2^63", err);
    *out = s.kind == KIND_signed ? sign_extend(&s) : (int64_t)s.bits;
    return QN_OK;
}

static double float_value(const scalar *s)
{
    float f;
    double d;
    const uint32_t low = (uint32_t)s->bits;
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &s->bits, sizeof d);
    return s->bytes == 4 ? (double)f : d;
}

qn_status qn_gguf_get_f64(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, double *out, qn_error *err)
{
    static const uint64_t exact = (uint64_t)1 << 53; /* above it integers have no exact double */
    const qn_gguf_part *part = &file->parts[0];
    scalar s = {0};
    QN_TRY(get_scalar(part, kv, index, "a number", &s, err));
    if (s.kind == KIND_bool) return wrong(part, kv, s.offset, "a number", err);
    if (s.kind == KIND_float) {
        *out = float_value(&s);
        return QN_OK;
    }
    const int64_t value = s.kind == KIND_signed ? sign_extend(&s) : 0;
    const uint64_t magnitude = s.kind == KIND_unsigned ? s.bits : value < 0 ? -(uint64_t)value : (uint64_t)value;
    if (magnitude > exact) return does_not_fit(part, kv, &s, "a number of at most 2^53", err);
    *out = s.kind == KIND_signed ? (double)value : (double)s.bits;
    return QN_OK;
}

qn_status qn_gguf_get_bool(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, bool *out, qn_error *err)
{
    const qn_gguf_part *part = &file->parts[0];
    scalar s = {0};
    QN_TRY(get_scalar(part, kv, index, "a bool", &s, err));
    if (s.kind != KIND_bool) return wrong(part, kv, s.offset, "a bool", err);
    *out = s.bits != 0;
    return QN_OK;
}

qn_status qn_gguf_get_str(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t index, qn_gguf_str *out, qn_error *err)
{
    const qn_gguf_part *part = &file->parts[0];
    const qn_gguf_entry *entry = (const qn_gguf_entry *)kv;
    if (kv->elem != QN_GGUF_str) return wrong(part, kv, kv->offset, "a string", err);
    if (index >= kv->count) return out_of_range(part, kv, index, err);
    const uint64_t at = kv->offset + (kv->type == QN_GGUF_arr ? entry->strs[index] : 0);
    const uint64_t len = qn__gguf_load(part->data + at, 8, part->big_endian);
    if (len > entry->end - at - 8) {
        char subject[QN_GGUF_SUBJECT_BYTES];
        qn__gguf_subject(subject, "key", kv->key, strlen(kv->key));
        return QN_GGUF_BAD(err, format, part->label, subject, at,
                           "found a string of %llu bytes, expected at most %llu: the file "
                           "has changed since it was opened",
                           (unsigned long long)len, (unsigned long long)(entry->end - at - 8));
    }
    *out = (qn_gguf_str){(const char *)part->data + at + 8, (size_t)len};
    return QN_OK;
}

/* ---- lookups ---- */

const qn_gguf_kv *qn__gguf_part_find(const qn_gguf_part *part, const char *key)
{
    const int64_t item = qn__names_find(&part->kv_index, key);
    return item < 0 ? NULL : &part->kv[item].pub;
}

size_t qn_gguf_n_kv(const qn_gguf *file) { return file->parts[0].n_kv; }

const qn_gguf_kv *qn_gguf_kv_get(const qn_gguf *file, size_t index)
{
    return index < file->parts[0].n_kv ? &file->parts[0].kv[index].pub : NULL;
}

const qn_gguf_kv *qn_gguf_kv_find(const qn_gguf *file, const char *key)
{
    return qn__gguf_part_find(&file->parts[0], key);
}

size_t qn_gguf_n_tensors(const qn_gguf *file) { return file->n_tensors; }

const qn_gguf_tensor *qn_gguf_tensor_get(const qn_gguf *file, size_t index)
{
    return index < file->n_tensors ? &file->tensors[index].pub : NULL;
}

const qn_gguf_tensor *qn_gguf_tensor_find(const qn_gguf *file, const char *name)
{
    const int64_t item = qn__names_find(&file->tensor_index, name);
    return item < 0 ? NULL : &file->tensors[item].pub;
}
