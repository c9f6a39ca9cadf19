/* SPDX-License-Identifier: MIT */
/* src/trace/pack.c -- bytes to blocks. zlib's state is made once, so that packing allocates nothing but room. */
#include "trace/format.h"
#include "base/error.h"
#include "base/mem.h"
#include <string.h>
#include <zlib.h>

struct qn_trace_packer {
    z_stream z;
};

/* Level 1: of a million events 5.0 bytes each, at 100 MB/s; level 6 takes 4.6 at a fifth of the speed. Who is in a
 * hurry stores what takes longest: times are two thirds of the work and shrink to a half. */
enum { LEVEL = 1, STORE = 0 };

static void *z_alloc(void *opaque, unsigned n, unsigned size)
{
    (void)opaque;
    return qn__calloc(n, size);
}

static void z_free(void *opaque, void *p)
{
    (void)opaque;
    qn__free(p);
}

qn_status qn__trace_packer_create(qn_trace_packer **out, qn_error *err)
{
    qn_trace_packer *p = qn__calloc(1, sizeof(*p));
    if (!p) return QN_FAIL_NOMEM(err, sizeof(*p));
    p->z.zalloc = z_alloc;
    p->z.zfree = z_free;
    if (deflateInit(&p->z, LEVEL) != Z_OK) {
        qn__free(p);
        return QN_FAIL(err, nomem, "out of memory for zlib");
    }
    *out = p;
    return QN_OK;
}

void qn__trace_packer_destroy(qn_trace_packer *p)
{
    if (!p) return;
    deflateEnd(&p->z);
    qn__free(p);
}

static void put(uint8_t *at, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(x >> (8 * i));
}

static uint32_t crc(const void *p, size_t n) { return (uint32_t)crc32_z(crc32(0, NULL, 0), p, n); }

static void put_header(uint8_t *at, const qn_trace_block *b)
{
    put(at, QN_TRACE_BLOCK_MAGIC, 4);
    put(at + 4, b->kind, 2);
    put(at + 6, b->method, 2);
    put(at + 8, b->lane, 4);
    put(at + 12, b->count, 4);
    put(at + 16, b->raw_bytes, 4);
    put(at + 20, b->packed_bytes, 4);
    put(at + 24, b->dropped, 8);
    put(at + 32, b->payload_crc, 4);
    put(at + 36, crc(at, 36), 4);
}

/* One stream: the first bytes deflated, the others as they are. A change of level ends a block of the stream. */
static bool deflate_first(z_stream *z, size_t n_first)
{
    const uInt others = z->avail_in - (uInt)n_first;
    z->avail_in = (uInt)n_first;
    if (deflate(z, Z_NO_FLUSH) != Z_OK || z->avail_in > 0 || deflateParams(z, STORE, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    z->avail_in = others;
    return deflate(z, Z_FINISH) == Z_STREAM_END;
}

/* As it was made. Some versions write a header when the level changes: it goes nowhere. */
static void restore_level(z_stream *z)
{
    uint8_t nowhere[16];
    deflateReset(z);
    z->avail_in = 0;
    z->next_out = nowhere;
    z->avail_out = sizeof nowhere;
    deflateParams(z, LEVEL, Z_DEFAULT_STRATEGY);
}

/* Into the room behind `at`; 0 when it does not get smaller, or too small to be believed. */
static size_t deflate_into(qn_trace_packer *p, const void *raw, size_t bytes, size_t n_first, uint8_t *to, size_t room)
{
    z_stream *z = &p->z;
    deflateReset(z);
    z->next_in = (Bytef *)(uintptr_t)raw;
    z->avail_in = (uInt)bytes;
    z->next_out = to;
    z->avail_out = (uInt)room;
    const bool whole = n_first < bytes ? deflate_first(z, n_first) : deflate(z, Z_FINISH) == Z_STREAM_END;
    const size_t packed = room - z->avail_out;
    if (n_first < bytes) restore_level(z);
    return whole && packed < bytes && packed * QN_TRACE_MAX_RATIO >= bytes ? packed : 0;
}

bool qn__trace_pack(qn_trace_packer *p, qn_trace_block *block, const void *raw, size_t bytes, size_t n_first,
                    qn_str *out)
{
    if (bytes > UINT32_MAX / 2 || !qn__str_reserve(out, out->len + QN_TRACE_BLOCK_BYTES + bytes + 1)) return false;
    uint8_t *header = (uint8_t *)out->data + out->len, *payload = header + QN_TRACE_BLOCK_BYTES;
    size_t packed = bytes > 64 && n_first > 0 ? deflate_into(p, raw, bytes, n_first, payload, bytes) : 0;
    block->method = packed > 0;
    if (packed == 0) {
        if (bytes > 0) memcpy(payload, raw, bytes);
        packed = bytes;
    }
    block->raw_bytes = (uint32_t)bytes;
    block->packed_bytes = (uint32_t)packed;
    block->payload_crc = crc(payload, packed);
    put_header(header, block);
    out->len += QN_TRACE_BLOCK_BYTES + packed;
    out->data[out->len] = '\0';
    return true;
}

void qn__trace_pack_file_header(qn_str *out)
{
    uint8_t b[QN_TRACE_FILE_BYTES];
    memcpy(b, QN_TRACE_MAGIC, 8);
    put(b + 8, QN_TRACE_VERSION, 4);
    put(b + 12, QN_TRACE_ORDER, 4);
    qn__str_append(out, b, sizeof b);
}
