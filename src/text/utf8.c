/* SPDX-License-Identifier: MIT */
/* src/text/utf8.c -- see utf8.h. Table 3-7 of the Unicode standard decides what is well-formed. */
#include "text/utf8.h"

#include <string.h>

/* Allowed range of the second byte for a first byte; the third and fourth are always 80..BF. */
static int sequence(unsigned char first, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;
    if (first < 0xE0) return 2;
    if (first < 0xF0) {
        if (first == 0xE0) *lo = 0xA0;
        if (first == 0xED) *hi = 0x9F;
        return 3;
    }
    if (first > 0xF4) return 0;
    if (first == 0xF0) *lo = 0x90;
    if (first == 0xF4) *hi = 0x8F;
    return 4;
}

int qn__utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned char lo, hi;
    if (!n) return 0;
    const int len = sequence(u[0], &lo, &hi);
    if (len == 1) {
        *cp = u[0];
        return 1;
    }
    if (!len || (size_t)len > n || u[1] < lo || u[1] > hi) return 0;
    uint32_t value = (uint32_t)(u[0] & (0xFF >> (len + 1))) << 6 | (u[1] & 0x3Fu);
    for (int i = 2; i < len; i++) {
        if ((u[i] & 0xC0) != 0x80) return 0;
        value = value << 6 | (u[i] & 0x3Fu);
    }
    *cp = value;
    return len;
}

int qn__utf8_encode(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

size_t qn__utf8_broken(const char *s, size_t n, bool *may_grow)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned char lo, hi;
    const int len = sequence(u[0], &lo, &hi);
    *may_grow = false;
    if (len < 2) return 1;
    size_t have = 1;
    while (have < n && have < (size_t)len && u[have] >= (have == 1 ? lo : 0x80) && u[have] <= (have == 1 ? hi : 0xBF))
        have++;
    *may_grow = have == n && have < (size_t)len;
    return have;
}

size_t qn__utf8_valid_prefix(const char *s, size_t n)
{
    size_t pos = 0;
    uint32_t cp;
    while (pos < n) {
        uint64_t eight = UINT64_MAX;
        if (n - pos >= 8) memcpy(&eight, s + pos, 8);
        if (!(eight & UINT64_C(0x8080808080808080))) { /* most text: eight characters of ASCII */
            pos += 8;
            continue;
        }
        const int len = qn__utf8_decode(s + pos, n - pos, &cp);
        if (!len) break;
        pos += (size_t)len;
    }
    return pos;
}

bool qn__utf8_repair(qn_str *out, const char *s, size_t n)
{
    size_t pos = 0;
    while (pos < n) {
        const size_t good = qn__utf8_valid_prefix(s + pos, n - pos);
        qn__str_append(out, s + pos, good);
        pos += good;
        if (pos < n) {
            qn__str_append(out, QN_UTF8_REPLACEMENT, 3);
            pos++;
        }
    }
    return !out->failed;
}

bool qn__cp_is_space(uint32_t cp)
{
    if (cp < 0x80) return cp == ' ' || (cp >= '\t' && cp <= '\r');
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}
