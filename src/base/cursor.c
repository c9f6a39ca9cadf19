/* SPDX-License-Identifier: MIT */
/* src/base/cursor.c -- bounds-checked reads. Always: pos <= size; once failed, nothing moves. */
#include "base/cursor.h"
#include "base/error.h"
#include <string.h>

void qn__cursor_init(qn_cursor *c, const void *base, size_t size) { *c = (qn_cursor){.base = base, .size = size}; }

static bool fail(qn_cursor *c, size_t pos, uint64_t need)
{
    if (!c->failed) {
        c->failed = true;
        c->fail_pos = pos;
        c->fail_need = need > SIZE_MAX ? SIZE_MAX : (size_t)need;
    }
    return false;
}

const uint8_t *qn__get_bytes(qn_cursor *c, uint64_t n)
{
    static const uint8_t none = 0; /* zero bytes of an empty range are there, and NULL would say that they are not */
    if (c->failed || n > qn__cursor_left(c)) {
        fail(c, c->pos, n);
        return NULL;
    }
    const uint8_t *p = c->base != NULL ? c->base + c->pos : &none;
    c->pos += (size_t)n;
    return p;
}

bool qn__cursor_skip(qn_cursor *c, uint64_t n) { return qn__get_bytes(c, n) != NULL; }

bool qn__cursor_seek(qn_cursor *c, uint64_t pos)
{
    if (c->failed) return false;
    if (pos > c->size) return fail(c, pos > SIZE_MAX ? SIZE_MAX : (size_t)pos, 0);
    c->pos = (size_t)pos;
    return true;
}

uint32_t qn__get_u32(qn_cursor *c)
{
    uint32_t v = 0;
    const uint8_t *p = qn__get_bytes(c, sizeof v);
    if (p == NULL) return 0;
    memcpy(&v, p, sizeof v);
    return c->swap ? __builtin_bswap32(v) : v;
}

uint64_t qn__get_u64(qn_cursor *c)
{
    uint64_t v = 0;
    const uint8_t *p = qn__get_bytes(c, sizeof v);
    if (p == NULL) return 0;
    memcpy(&v, p, sizeof v);
    return c->swap ? __builtin_bswap64(v) : v;
}

void qn__swap_array(void *data, size_t count, size_t elem_bytes)
{
    QN_ASSERT(elem_bytes == 2 || elem_bytes == 4 || elem_bytes == 8);
    uint8_t *p = data;
    for (size_t i = 0; i < count; i++, p += elem_bytes) {
        for (size_t a = 0, b = elem_bytes - 1; a < b; a++, b--) {
            const uint8_t t = p[a];
            p[a] = p[b];
            p[b] = t;
        }
    }
}
