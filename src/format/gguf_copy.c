/* SPDX-License-Identifier: MIT */
/* src/format/gguf_copy.c -- metadata from an open file into a writer, swapped to little endian on the way. The values
 * were checked when the file was opened; the cursor checks their bounds again, because a mapped file can change. */
#include "format/gguf_writer.h"
#include <string.h>

static void copy_string(qn_gguf_writer *w, qn_cursor *c)
{
    const uint64_t len = qn__get_u64(c);
    const uint8_t *bytes = qn__get_bytes(c, len);
    if (!bytes) return; /* the cursor has failed; said by the caller */
    qn__gguf_put_le(&w->kv, len, 8);
    qn__str_append(&w->kv, bytes, (size_t)len);
}

static void copy_scalars(qn_gguf_writer *w, qn_cursor *c, bool big_endian, int bytes, uint64_t count)
{
    size_t total;
    const uint8_t *p = qn__mul_size((size_t)count, (size_t)bytes, &total) ? qn__get_bytes(c, total) : NULL;
    if (!p)
        c->failed = true;
    else if (!big_endian)
        qn__str_append(&w->kv, p, total);
    else
        for (size_t i = 0; i < total; i += (size_t)bytes)
            qn__gguf_put_le(&w->kv, qn__gguf_load(p + i, bytes, true), bytes);
}

static void copy_array(qn_gguf_writer *w, qn_cursor *c, bool big_endian, int depth)
{
    const uint32_t elem = qn__get_u32(c);
    const uint64_t count = qn__get_u64(c);
    qn__gguf_put_le(&w->kv, elem, 4);
    qn__gguf_put_le(&w->kv, count, 8);
    const int bytes = qn__gguf_type_bytes(elem);
    if (bytes > 0) {
        copy_scalars(w, c, big_endian, bytes, count);
        return;
    }
    if (depth > QN_GGUF_MAX_NESTING) c->failed = true;
    for (uint64_t i = 0; i < count && !c->failed && !w->kv.failed; i++) {
        if (elem == QN_GGUF_str)
            copy_string(w, c);
        else
            copy_array(w, c, big_endian, depth + 1);
    }
}

void qn_gguf_write_kv(qn_gguf_writer *w, const qn_gguf *from, const qn_gguf_kv *kv)
{
    const qn_gguf_part *part = &from->parts[0];
    const qn_gguf_entry *entry = (const qn_gguf_entry *)kv;
    uint64_t alignment = w->alignment;
    if (qn__gguf_is_alignment(kv->key)) { /* whatever integer it was, it is a u32 here */
        if (w->to.error.status == QN_OK && qn__gguf_part_u64(part, kv, 0, &alignment, &w->to.error) == QN_OK)
            qn__gguf_write_scalar(w, kv->key, QN_GGUF_u32, alignment);
        return;
    }
    if (!qn__gguf_begin_kv(w, kv->key, kv->type)) return;
    qn_cursor c;
    qn__cursor_init(&c, part->data, (size_t)entry->end);
    c.swap = part->swap;
    qn__cursor_seek(&c, kv->offset);
    if (kv->type == QN_GGUF_arr)
        copy_array(w, &c, part->big_endian, 1);
    else if (kv->type == QN_GGUF_str)
        copy_string(w, &c);
    else
        copy_scalars(w, &c, part->big_endian, qn__gguf_type_bytes(kv->type), 1);
    if (c.failed)
        QN_WRITER_FAIL(w, format,
                       "key \"%.100s\": its value changed while it was copied, expected a file that nobody rewrites",
                       kv->key);
    qn__gguf_end_kv(w);
}

void qn_gguf_write_kvs(qn_gguf_writer *w, const qn_gguf *from, const char *prefix)
{
    for (size_t i = 0; i < qn_gguf_n_kv(from); i++) {
        const qn_gguf_kv *kv = qn_gguf_kv_get(from, i);
        if (qn__gguf_is_alignment(kv->key) || strncmp(kv->key, "split.", 6) == 0) continue;
        if (strncmp(kv->key, prefix, strlen(prefix)) == 0) qn_gguf_write_kv(w, from, kv);
    }
}
