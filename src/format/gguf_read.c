/* SPDX-License-Identifier: MIT */
/* src/format/gguf_read.c -- reading the header of one GGUF file: magic, version, byte order, counts, and the metadata
 * table.
 *
 * Nothing is believed before it is checked: a count is compared with the bytes that are left, tables grow with the
 * entries that were really read, and strings are walked once before anything is allocated for them. So memory stays in
 * proportion to the header bytes that exist, and the time too, whatever the counts claim. */
#include "format/gguf_file.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

static const uint8_t type_bytes[] = {
#define TYPE_BYTES(name, id, bytes) [id] = bytes,
    QN_GGUF_TYPE_ROWS(TYPE_BYTES)
#undef TYPE_BYTES
};
static const char *const type_names[] = {
#define TYPE_NAME(name, id, bytes) [id] = #name,
    QN_GGUF_TYPE_ROWS(TYPE_NAME)
#undef TYPE_NAME
};

int qn__gguf_type_bytes(uint32_t type) { return type < QN_GGUF_TYPE_COUNT ? type_bytes[type] : 0; }

const char *qn_gguf_type_name(qn_gguf_type type)
{
    return (uint32_t)type < QN_GGUF_TYPE_COUNT ? type_names[type] : "?";
}

uint64_t qn__gguf_end(uint64_t pos, uint64_t count, uint64_t bytes)
{
    return count > (QN_GGUF_MAX_HEADER - pos) / bytes ? UINT64_MAX : pos + count * bytes;
}

const char *qn__gguf_cut(qn_gguf_reader *r, uint64_t needed)
{
    const uint64_t most = (uint64_t)1 << 44; /* no model has that: the number is damaged, not the end */
    if (needed <= r->part->size || needed > most) return r->part->label;
    snprintf(r->cut, sizeof r->cut,
             "%sthe file is cut off: %llu bytes, at least %llu are needed; download it again: ", r->part->label,
             (unsigned long long)r->part->size, (unsigned long long)needed);
    return r->cut;
}

qn_status qn__gguf_need(qn_gguf_reader *r, uint64_t n, const char *what)
{
    const size_t left = qn__cursor_left(&r->c);
    if (left >= n) return QN_OK;
    if (r->c.size < r->part->size)
        return QN_READ_BAD(r, limit, r->c.pos, "found a header of more than %llu bytes, expected at most that",
                           (unsigned long long)QN_GGUF_MAX_HEADER);
    return QN_READ_CUT(r, r->c.pos, qn__gguf_end(r->c.pos, n, 1),
                       "found the end of the file (%zu bytes left), expected %llu bytes of %s", left,
                       (unsigned long long)n, what);
}

qn_status qn__gguf_grow(void **items, size_t *cap, size_t n, size_t item_bytes, qn_error *err)
{
    if (n < *cap) return QN_OK;
    size_t bytes, more = *cap == 0 ? 64 : *cap * 2; /* limits keep this far from overflow */
    if (!qn__mul_size(more, item_bytes, &bytes)) return QN_FAIL_NOMEM(err, SIZE_MAX);
    void *grown = qn__realloc(*items, bytes);
    if (!grown) return QN_FAIL_NOMEM(err, bytes);
    *items = grown;
    *cap = more;
    return QN_OK;
}

qn_status qn__gguf_read_name(qn_gguf_reader *r, const char *what, uint64_t number, uint64_t max, const char **out)
{
    const uint64_t at = r->c.pos;
    snprintf(r->subject, sizeof r->subject, "%s number %llu", what, (unsigned long long)number);
    QN_TRY(qn__gguf_need(r, 8, "its name's length"));
    const uint64_t len = qn__get_u64(&r->c), left = qn__cursor_left(&r->c);
    if (len > left)
        return QN_READ_CUT(r, at, qn__gguf_end(r->c.pos, len, 1),
                           "found a name of %llu bytes, expected at most the %llu bytes left", (unsigned long long)len,
                           (unsigned long long)left);
    const char *name = (const char *)qn__get_bytes(&r->c, len);
    const char *fault = qn__gguf_name_fault(name, len, max);
    if (len > 0) qn__gguf_subject(r->subject, what, name, (size_t)len);
    if (fault)
        return QN_READ_BAD(r, format, at, "found %s in its name (%llu bytes), expected 1 to %llu bytes of UTF-8 text",
                           fault, (unsigned long long)len, (unsigned long long)max);
    *out = qn__arena_strndup(&r->file->arena, name, (size_t)len);
    return *out ? QN_OK : QN_FAIL_NOMEM(r->err, len + 1);
}

/* ---- values: checked and skipped, not decoded ---- */

/* index: of the element when the string lies in an array, else -1. */
static qn_status check_string(qn_gguf_reader *r, int64_t index)
{
    const uint64_t at = r->c.pos;
    char where[40] = "";
    QN_TRY(qn__gguf_need(r, 8, "a string's length"));
    const uint64_t len = qn__get_u64(&r->c), left = qn__cursor_left(&r->c);
    const uint8_t *bytes = len <= left ? qn__get_bytes(&r->c, len) : NULL;
    const size_t good = bytes ? qn__utf8_valid(bytes, (size_t)len) : 0;
    if (bytes && good == len) return QN_OK;

    if (index >= 0) snprintf(where, sizeof where, " as element %lld", (long long)index);
    if (!bytes)
        return QN_READ_CUT(r, at, qn__gguf_end(r->c.pos, len, 1),
                           "found a string of %llu bytes%s, expected at most the %llu bytes left",
                           (unsigned long long)len, where, (unsigned long long)left);
    return QN_READ_BAD(r, format, at + 8 + good, "found byte 0x%02x in a string of %llu bytes%s, expected UTF-8",
                       bytes[good], (unsigned long long)len, where);
}

static qn_status check_bools(qn_gguf_reader *r, uint64_t count)
{
    const uint64_t at = r->c.pos;
    const uint8_t *bytes = qn__get_bytes(&r->c, count);
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] > 1) return QN_READ_BAD(r, format, at + i, "found %d in a bool, expected 0 or 1", bytes[i]);
    return QN_OK;
}

static qn_status check_type(qn_gguf_reader *r, uint32_t type, uint64_t at, const char *what)
{
    if (type < QN_GGUF_TYPE_COUNT) return QN_OK;
    return QN_READ_BAD(r, format, at, "found %s type %u, expected 0 (%s) to %d (%s)", what, type, type_names[0],
                       QN_GGUF_TYPE_COUNT - 1, type_names[QN_GGUF_TYPE_COUNT - 1]);
}

static qn_status check_array(qn_gguf_reader *r, int depth, uint32_t *elem_out, uint64_t *count_out)
{
    const uint64_t at = r->c.pos;
    QN_TRY(qn__gguf_need(r, 12, "an array's type and count"));
    const uint32_t elem = qn__get_u32(&r->c);
    const uint64_t count = qn__get_u64(&r->c), left = qn__cursor_left(&r->c);
    QN_TRY(check_type(r, elem, at, "element"));
    *elem_out = elem;
    *count_out = count;

    const int fixed = qn__gguf_type_bytes(elem);
    const int least = fixed ? fixed : elem == QN_GGUF_str ? 8 : 12;
    const uint64_t room = left / (uint64_t)least;
    if (count > room)
        return QN_READ_CUT(r, at + 4, qn__gguf_end(r->c.pos, count, (uint64_t)least),
                           "found an array of %llu %s, expected at most %llu (%d bytes each in the %llu left)",
                           (unsigned long long)count, qn_gguf_type_name((qn_gguf_type)elem), (unsigned long long)room,
                           least, (unsigned long long)left);
    if (elem == QN_GGUF_bool) return check_bools(r, count);
    if (fixed) {
        qn__cursor_skip(&r->c, count * (uint64_t)fixed);
        return QN_OK;
    }
    if (elem == QN_GGUF_str && count > QN_GGUF_MAX_STRINGS)
        return QN_READ_BAD(r, limit, at + 4, "found an array of %llu strings, expected at most %llu",
                           (unsigned long long)count, (unsigned long long)QN_GGUF_MAX_STRINGS);
    if (elem == QN_GGUF_arr && depth >= QN_GGUF_MAX_NESTING)
        return QN_READ_BAD(r, limit, at, "found arrays nested more than %d deep, expected at most that",
                           QN_GGUF_MAX_NESTING);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t inner;
        uint64_t inner_count;
        QN_TRY(elem == QN_GGUF_str ? check_string(r, (int64_t)i) : check_array(r, depth + 1, &inner, &inner_count));
    }
    return QN_OK;
}

static qn_status check_value(qn_gguf_reader *r, qn_gguf_entry *entry)
{
    const uint32_t type = entry->pub.type;
    if (type == QN_GGUF_str) return check_string(r, -1);
    if (type == QN_GGUF_arr) {
        uint32_t elem;
        QN_TRY(check_array(r, 1, &elem, &entry->pub.count));
        entry->pub.elem = (qn_gguf_type)elem;
        return QN_OK;
    }
    const int bytes = qn__gguf_type_bytes(type);
    QN_TRY(qn__gguf_need(r, (uint64_t)bytes, "its value"));
    if (type == QN_GGUF_bool) return check_bools(r, 1);
    qn__cursor_skip(&r->c, (uint64_t)bytes);
    return QN_OK;
}

/* The second walk over an array of strings, all of whose lengths are known to be good by now. */
static qn_status index_strings(qn_gguf_reader *r, qn_gguf_entry *entry)
{
    const uint64_t count = entry->pub.count;
    if (entry->pub.type != QN_GGUF_arr || entry->pub.elem != QN_GGUF_str || count == 0) return QN_OK;
    uint32_t *strs = qn__arena_array(&r->file->arena, (size_t)count, sizeof *strs);
    if (!strs) return QN_FAIL_NOMEM(r->err, count * sizeof *strs);
    uint64_t at = entry->pub.offset + 12;
    for (uint64_t i = 0; i < count && at + 8 <= entry->end; i++) {
        strs[i] = (uint32_t)(at - entry->pub.offset); /* fits: a header is at most QN_GGUF_MAX_HEADER */
        at += 8 + qn__gguf_load(r->part->data + at, 8, r->part->big_endian);
    }
    entry->strs = strs;
    return QN_OK;
}

/* ---- the metadata table ---- */

static qn_status read_kv(qn_gguf_reader *r, uint64_t number, qn_gguf_entry *entry)
{
    *entry = (qn_gguf_entry){0};
    QN_TRY(qn__gguf_read_name(r, "key", number, QN_GGUF_MAX_KEY, &entry->pub.key));
    QN_TRY(qn__gguf_need(r, 4, "its type"));
    const uint64_t at = r->c.pos;
    const uint32_t type = qn__get_u32(&r->c);
    QN_TRY(check_type(r, type, at, "value"));
    entry->pub.type = entry->pub.elem = (qn_gguf_type)type;
    entry->pub.count = 1;
    entry->pub.offset = r->c.pos;
    QN_TRY(check_value(r, entry));
    entry->end = r->c.pos;
    return index_strings(r, entry);
}

static qn_status read_kvs(qn_gguf_reader *r, uint64_t count)
{
    qn_gguf_part *part = r->part;
    size_t cap = 0;
    for (uint64_t i = 0; i < count; i++) {
        void *items = part->kv;
        QN_TRY(qn__gguf_grow(&items, &cap, part->n_kv, sizeof *part->kv, r->err));
        part->kv = items;
        QN_TRY(read_kv(r, i, &part->kv[part->n_kv]));
        part->n_kv++;
    }
    QN_TRY(qn__names_build(&part->kv_index, &r->file->arena, part->kv, sizeof *part->kv, part->n_kv, r->err));
    uint32_t first, second;
    if (!qn__names_twice(&part->kv_index, &first, &second)) return QN_OK;
    const qn_gguf_kv *a = &part->kv[first].pub, *b = &part->kv[second].pub;
    qn__gguf_subject(r->subject, "key", b->key, strlen(b->key));
    return QN_READ_BAD(r, format, b->offset, "found the same key as at offset %llu, expected each key once",
                       (unsigned long long)a->offset);
}

static qn_status read_alignment(qn_gguf_reader *r)
{
    qn_gguf_part *part = r->part;
    uint64_t value = QN_GGUF_DEFAULT_ALIGN;
    const qn_gguf_kv *kv = qn__gguf_part_find(part, "general.alignment");
    if (kv) QN_TRY(qn__gguf_part_u64(part, kv, 0, &value, r->err));
    if (value < QN_GGUF_MIN_ALIGN || value > QN_GGUF_MAX_ALIGN || (value & (value - 1)) != 0) {
        qn__gguf_subject(r->subject, "key", kv->key, strlen(kv->key));
        return QN_READ_BAD(r, format, kv->offset, "found an alignment of %llu, expected a power of two from %d to %llu",
                           (unsigned long long)value, QN_GGUF_MIN_ALIGN, (unsigned long long)QN_GGUF_MAX_ALIGN);
    }
    part->alignment = (uint32_t)value;
    return QN_OK;
}

/* ---- the frame ---- */

/* A version is a small number, so whichever order makes it one is the file's. */
static qn_status read_version(qn_gguf_reader *r)
{
    qn_gguf_part *part = r->part;
    QN_TRY(qn__gguf_need(r, 4, "the version"));
    const uint8_t *bytes = qn__get_bytes(&r->c, 4);
    const uint32_t little = (uint32_t)qn__gguf_load(bytes, 4, false), big = (uint32_t)qn__gguf_load(bytes, 4, true);
    part->big_endian = (big & 0xffff) != 0 && (little & 0xffff) == 0;
    part->version = part->big_endian ? big : little;
    const uint16_t probe = 1;
    const bool host_big = *(const uint8_t *)&probe == 0;
    part->swap = part->big_endian != host_big;
    r->c.swap = part->swap;
    if (part->version == 2 || part->version == 3) return QN_OK;
    if (part->version == 1)
        return QN_READ_BAD(r, unsupported, 4,
                           "found GGUF version 1, expected 2 or 3 (version 1 was in use for weeks in 2023; "
                           "convert the model again)");
    return QN_READ_BAD(r, unsupported, 4, "found GGUF version %u, expected 2 or 3", part->version);
}

static qn_status check_counts(qn_gguf_reader *r, uint64_t n_tensors, uint64_t n_kv)
{
    const uint64_t left = qn__cursor_left(&r->c);
    if (n_kv > left / QN_GGUF_MIN_KV_BYTES)
        return QN_READ_CUT(r, 16, qn__gguf_end(r->c.pos, n_kv, QN_GGUF_MIN_KV_BYTES),
                           "found a count of %llu keys, expected at most %llu (%d bytes each in the %llu left)",
                           (unsigned long long)n_kv, (unsigned long long)(left / QN_GGUF_MIN_KV_BYTES),
                           QN_GGUF_MIN_KV_BYTES, (unsigned long long)left);
    const uint64_t room = (left - n_kv * QN_GGUF_MIN_KV_BYTES) / QN_GGUF_MIN_TENSOR_BYTES;
    if (n_tensors > room)
        return QN_READ_CUT(r, 8, qn__gguf_end(r->c.pos, n_tensors, QN_GGUF_MIN_TENSOR_BYTES),
                           "found a count of %llu tensors, expected at most %llu (%d bytes each in the %llu left)",
                           (unsigned long long)n_tensors, (unsigned long long)room, QN_GGUF_MIN_TENSOR_BYTES,
                           (unsigned long long)left);
    if (n_kv > QN_GGUF_MAX_KV)
        return QN_READ_BAD(r, limit, 16, "found a count of %llu keys, expected at most %llu", (unsigned long long)n_kv,
                           (unsigned long long)QN_GGUF_MAX_KV);
    if (n_tensors > QN_GGUF_MAX_TENSORS)
        return QN_READ_BAD(r, limit, 8, "found a count of %llu tensors, expected at most %llu",
                           (unsigned long long)n_tensors, (unsigned long long)QN_GGUF_MAX_TENSORS);
    return QN_OK;
}

static qn_status read_header(qn_gguf_reader *r)
{
    static const uint8_t magic[4] = {'G', 'G', 'U', 'F'};
    char quoted[24];
    QN_TRY(qn__gguf_need(r, 4, "the magic \"GGUF\""));
    const char *found = (const char *)qn__get_bytes(&r->c, 4);
    if (memcmp(found, magic, 4) != 0)
        return QN_READ_BAD(r, format, 0, "found \"%s\", expected the magic \"GGUF\": not a GGUF file",
                           qn__str_quote(quoted, sizeof quoted, found, 4));
    QN_TRY(read_version(r));
    QN_TRY(qn__gguf_need(r, 16, "the tensor count and key count"));
    const uint64_t n_tensors = qn__get_u64(&r->c), n_kv = qn__get_u64(&r->c);
    QN_TRY(check_counts(r, n_tensors, n_kv));
    QN_TRY(read_kvs(r, n_kv));
    QN_TRY(read_alignment(r));
    return qn__gguf_read_tensors(r, n_tensors);
}

qn_status qn__gguf_read_part(qn_gguf *file, int part, qn_error *err)
{
    qn_gguf_reader r = {.file = file, .part = &file->parts[part], .err = err, .subject = "header"};
    const uint64_t size = r.part->size;
    qn__cursor_init(&r.c, r.part->data, (size_t)(size < QN_GGUF_MAX_HEADER ? size : QN_GGUF_MAX_HEADER));
    return read_header(&r);
}
