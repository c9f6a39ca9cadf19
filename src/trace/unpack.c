/* SPDX-License-Identifier: MIT */
/* src/trace/unpack.c -- blocks to bytes. Everything is checked before it is believed; nothing is allocated here. */
#include "trace/format.h"
#include "base/mem.h"
#include <string.h>
#include <zlib.h>

static uint64_t get(const uint8_t *at, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) x |= (uint64_t)at[i] << (8 * i);
    return x;
}

static uint32_t crc(const void *p, size_t n) { return (uint32_t)crc32_z(crc32(0, NULL, 0), p, n); }

const char *qn__trace_block_at(const uint8_t *file, uint64_t size, uint64_t at, qn_trace_block *out)
{
    const uint8_t *p = file + at;
    if (size - at < QN_TRACE_BLOCK_BYTES) return "the file ends inside of a block's header";
    if (get(p, 4) != QN_TRACE_BLOCK_MAGIC) return "no block begins here";
    if (get(p + 36, 4) != crc(p, 36)) return "the block's header is damaged";
    *out = (qn_trace_block){.kind = (uint16_t)get(p + 4, 2),
                            .method = (uint16_t)get(p + 6, 2),
                            .lane = (uint32_t)get(p + 8, 4),
                            .count = (uint32_t)get(p + 12, 4),
                            .raw_bytes = (uint32_t)get(p + 16, 4),
                            .packed_bytes = (uint32_t)get(p + 20, 4),
                            .dropped = get(p + 24, 8),
                            .payload_crc = (uint32_t)get(p + 32, 4)};
    if (out->method > 1) return "the block is packed in a way that this version doesn't know";
    if (out->packed_bytes > size - at - QN_TRACE_BLOCK_BYTES) return "the file ends inside of a block";
    if (out->payload_crc != crc(p + QN_TRACE_BLOCK_BYTES, out->packed_bytes)) return "the block's contents are damaged";
    if (out->method == 0 ? out->raw_bytes != out->packed_bytes
                         : out->raw_bytes > (uint64_t)out->packed_bytes * QN_TRACE_MAX_RATIO)
        return "the block claims more bytes than it may unpack to";
    return NULL;
}

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

bool qn__trace_unpack(const qn_trace_block *block, const uint8_t *payload, uint8_t *to, bool *nomem)
{
    *nomem = false;
    if (block->method == 0) {
        if (block->raw_bytes > 0) memcpy(to, payload, block->raw_bytes);
        return true;
    }
    z_stream z = {.zalloc = z_alloc,
                  .zfree = z_free,
                  .next_in = (Bytef *)(uintptr_t)payload,
                  .avail_in = block->packed_bytes,
                  .next_out = to,
                  .avail_out = block->raw_bytes};
    *nomem = inflateInit(&z) != Z_OK;
    if (*nomem) return false;
    const int end = inflate(&z, Z_FINISH);
    const bool whole = end == Z_STREAM_END && z.avail_out == 0 && z.avail_in == 0;
    *nomem = end == Z_MEM_ERROR;
    inflateEnd(&z);
    return whole;
}

/* ---- packed numbers ---- */

uint64_t qn__trace_get(qn_trace_cursor *c)
{
    uint64_t x = 0;
    for (int shift = 0; !c->failed && shift < 70; shift += 7) {
        if (c->p == c->end) break;
        const uint8_t b = *c->p++;
        if (shift == 63 && b > 1) break;
        x |= (uint64_t)(b & 127) << shift;
        if (b < 128) return x;
    }
    c->failed = true;
    return 0;
}

int64_t qn__trace_get_signed(qn_trace_cursor *c)
{
    const uint64_t x = qn__trace_get(c);
    return (int64_t)(x >> 1 ^ (x & 1 ? UINT64_MAX : 0));
}

uint64_t qn__trace_get_up_to(qn_trace_cursor *c, uint64_t max)
{
    const uint64_t x = qn__trace_get(c);
    if (x <= max) return x;
    c->failed = true;
    return 0;
}

const char *qn__trace_get_text(qn_trace_cursor *c, size_t *n)
{
    *n = (size_t)qn__trace_get_up_to(c, (uint64_t)(c->end - c->p));
    const uint8_t *text = c->p;
    if (c->failed || *n > (size_t)(c->end - c->p)) {
        c->failed = true;
        *n = 0;
        return "";
    }
    c->p += *n;
    return (const char *)text;
}
