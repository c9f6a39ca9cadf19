/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/charsmap.c -- see charsmap.h. Layout of the blob, little endian whatever the file's byte order:
 * u32 size of the double array in bytes, the array, the replacements. A node (Darts-clone): bits 10 to 30 the offset to
 * its children, times 256 when bit 9 is set; bit 8: the first child holds a value; bits 0 to 7 (and 31, set in values)
 * the byte that leads here. */
#include "text/tokenizer/charsmap.h"

#include <string.h>

#define KEY "tokenizer.ggml.precompiled_charsmap"

static uint32_t offset_of(uint32_t node) { return node >> 10 << ((node & 1u << 9) >> 6); }
static uint32_t label_of(uint32_t node) { return node & (1u << 31 | 0xFF); }
static bool has_value(uint32_t node) { return node >> 8 & 1; }
static uint32_t value_of(uint32_t node) { return node & ~(1u << 31); }

qn_status qn__charsmap_load(qn_tokenizer *tok, const qn_gguf *file, qn_charsmap *out, qn_error *err)
{
    const qn_gguf_kv *kv;
    *out = (qn_charsmap){0};
    QN_TRY(qn__key_array(file, KEY, false, &kv, err));
    if (!kv || !kv->count) return QN_OK;
    if (kv->elem != QN_GGUF_u8 && kv->elem != QN_GGUF_i8)
        return QN_FAIL(err, format, KEY " at offset %llu: found an array of %s, u8 or i8 was expected",
                       (unsigned long long)kv->offset, qn_gguf_type_name(kv->elem));

    const size_t n = (size_t)kv->count;
    unsigned char *blob = qn__arena_array(&tok->arena, n, 1);
    if (!blob) return QN_FAIL_NOMEM(err, n);
    for (size_t i = 0; i < n; i++) {
        int64_t byte;
        QN_TRY(qn_gguf_get_i64(file, kv, i, &byte, err));
        blob[i] = (unsigned char)byte;
    }
    const size_t size = n < 4 ? 0 : blob[0] | (size_t)blob[1] << 8 | (size_t)blob[2] << 16 | (size_t)blob[3] << 24;
    if (n < 4 || size >= n - 4 || size % 4)
        return QN_FAIL(err, format,
                       KEY " at offset %llu: found a trie of %zu bytes in %zu, a multiple of 4 below %zu was expected",
                       (unsigned long long)kv->offset, size, n, n < 4 ? 0 : n - 4);
    uint32_t *nodes = qn__arena_array(&tok->arena, size / 4 + 1, sizeof *nodes);
    if (!nodes) return QN_FAIL_NOMEM(err, size);
    for (size_t i = 0; i < size / 4; i++) {
        const unsigned char *b = blob + 4 + 4 * i;
        nodes[i] = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    }
    *out = (qn_charsmap){nodes, size / 4, (const char *)blob + 4 + size, n - 4 - size};
    return QN_OK;
}

static qn_status bad_index(size_t found, size_t limit, const char *what, qn_error *err)
{
    return QN_FAIL(err, format, KEY ": a %s index is %zu, below %zu was expected", what, found, limit);
}

qn_status qn__charsmap_find(const qn_charsmap *map, const char *s, size_t n, size_t *consumed, const char **to,
                            size_t *to_len, qn_error *err)
{
    size_t longest = 0, value = 0;
    *consumed = 0;
    if (!map->n_nodes) return QN_OK;
    uint32_t at = offset_of(map->nodes[0]);
    for (size_t i = 0; i < n && s[i]; i++) {
        const unsigned char c = (unsigned char)s[i];
        at ^= c;
        if (at >= map->n_nodes) return bad_index(at, map->n_nodes, "node", err);
        const uint32_t node = map->nodes[at];
        if (label_of(node) != c) break;
        at ^= offset_of(node);
        if (!has_value(node)) continue;
        if (at >= map->n_nodes) return bad_index(at, map->n_nodes, "value", err);
        longest = i + 1;
        value = value_of(map->nodes[at]);
    }
    if (!longest) return QN_OK;
    if (value >= map->n_replacements) return bad_index(value, map->n_replacements, "replacement", err);
    const char *end = memchr(map->replacements + value, '\0', map->n_replacements - value);
    if (!end) return QN_FAIL(err, format, KEY ": the replacement at %zu has no end", value);
    *consumed = longest;
    *to = map->replacements + value;
    *to_len = (size_t)(end - *to);
    return QN_OK;
}
