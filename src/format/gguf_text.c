/* SPDX-License-Identifier: MIT */
/* src/format/gguf_text.c -- what GGUF readers and writers say and accept as text: error lines, names, UTF-8. */
#include "format/gguf_file.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

qn_status qn__gguf_raise(qn_error *err, qn_status status, const char *file, int line, const char *label,
                         const char *subject, uint64_t offset, const char *fmt, ...)
{
    char message[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return qn__fail(err, status, file, line, "%s%s, offset %llu: %s", label, subject, (unsigned long long)offset,
                    message);
}

const char *qn__gguf_subject(char buf[QN_GGUF_SUBJECT_BYTES], const char *kind, const char *name, size_t n)
{
    char quoted[120];
    snprintf(buf, QN_GGUF_SUBJECT_BYTES, "%s \"%s\"", kind, qn__str_quote(quoted, sizeof quoted, name, n));
    return buf;
}

const char *qn__file_label(qn_arena *arena, const char *path)
{
    enum { KEEP = 100 };
    char quoted[2 * KEEP];
    const size_t len = strlen(path), skip = len > KEEP ? len - KEEP : 0;
    qn__str_quote(quoted, sizeof quoted, path + skip, len - skip);
    return qn__arena_printf(arena, "%s%s: ", skip > 0 ? "..." : "", quoted);
}

/* Length of the well-formed sequence at p, 0 when there is none: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
static size_t utf8_sequence(const uint8_t *p, size_t left)
{
    const uint8_t lead = p[0];
    if (lead < 0x80) return 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    const size_t len = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (left < len) return 0;
    const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return len;
}

size_t qn__utf8_valid(const void *text, size_t n)
{
    const uint8_t *p = text;
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= 8) { /* vocabularies are mostly ASCII */
            memcpy(&eight, p + i, 8);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += 8;
                continue;
            }
        }
        const size_t len = utf8_sequence(p + i, n - i);
        if (len == 0) return i;
        i += len;
    }
    return n;
}

const char *qn__gguf_name_fault(const void *name, uint64_t n, uint64_t max)
{
    const uint8_t *p = name;
    if (n == 0) return "nothing";
    if (n > max) return "more than that";
    if (qn__utf8_valid(name, (size_t)n) != n) return "bytes that are not UTF-8";
    for (uint64_t i = 0; i < n; i++)
        if (p[i] < 0x20 || p[i] == 0x7f) return "a control character";
    return NULL;
}

uint64_t qn__gguf_load(const uint8_t *p, int bytes, bool big_endian)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)p[i] << 8 * (big_endian ? bytes - 1 - i : i);
    return value;
}
