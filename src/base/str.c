/* SPDX-License-Identifier: MIT */
/* src/base/str.c -- growable strings and text helpers. Nothing here depends on the process's locale: a host program
 * that sets a decimal comma must not change what Quern prints or parses. */
#include "base/str.h"
#include "base/mem.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The C locale object; glibc and musl hand out a static one without allocating. */
static locale_t c_locale(void)
{
    static _Atomic(locale_t) cached;
    locale_t l = cached;
    if (l == (locale_t)0) {
        l = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        cached = l;
    }
    return l;
}

int qn__vformat(char *buf, size_t size, const char *fmt, va_list args)
{
    const locale_t c = c_locale();
    const locale_t old = c != (locale_t)0 ? uselocale(c) : (locale_t)0;
    const int n = vsnprintf(buf, size, fmt, args);
    if (old != (locale_t)0) uselocale(old);
    if (n < 0 && size > 0) buf[0] = '\0';
    return n;
}

int qn__format(char *buf, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = qn__vformat(buf, size, fmt, args);
    va_end(args);
    return n;
}

/* ---- growable string ---- */

void qn__str_deinit(qn_str *s)
{
    if (s == NULL) return;
    qn__free(s->data);
    *s = (qn_str){0};
}

void qn__str_clear(qn_str *s)
{
    s->len = 0;
    s->failed = false;
    if (s->data != NULL) s->data[0] = '\0';
}

/* Room for `cap` bytes and the terminator. */
bool qn__str_reserve(qn_str *s, size_t cap)
{
    if (s->failed) return false;
    if (s->data != NULL && cap <= s->cap) return true;
    size_t want = s->cap < SIZE_MAX / 2 ? s->cap * 2 : SIZE_MAX - 1;
    if (want < 47) want = 47;
    if (want < cap) want = cap;
    char *data = want < SIZE_MAX ? qn__realloc(s->data, want + 1) : NULL;
    if (data == NULL && cap < want && cap < SIZE_MAX) { /* no room to be generous */
        want = cap;
        data = qn__realloc(s->data, want + 1);
    }
    if (data == NULL) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->cap = want;
    s->data[s->len] = '\0';
    return true;
}

bool qn__str_append(qn_str *s, const void *bytes, size_t n)
{
    size_t total;
    if (!qn__add_size(s->len, n, &total)) s->failed = true;
    if (s->failed || !qn__str_reserve(s, total)) return false;
    if (n > 0) memcpy(s->data + s->len, bytes, n);
    s->len = total;
    s->data[total] = '\0';
    return true;
}

bool qn__str_puts(qn_str *s, const char *text) { return qn__str_append(s, text, strlen(text)); }

/* Readers of texts call it for each byte: what has room is a store. */
bool qn__str_putc(qn_str *s, char c)
{
    if (s->failed || s->data == NULL || s->len >= s->cap) return qn__str_append(s, &c, 1);
    s->data[s->len++] = c;
    s->data[s->len] = '\0';
    return true;
}

bool qn__str_printf(qn_str *s, const char *fmt, ...)
{
    if (s->failed) return false;
    char small[256];
    va_list args;
    va_start(args, fmt);
    const int n = qn__vformat(small, sizeof small, fmt, args);
    va_end(args);
    if (n < 0) {
        s->failed = true;
        return false;
    }
    if ((size_t)n < sizeof small) return qn__str_append(s, small, (size_t)n);

    size_t total;
    if (!qn__add_size(s->len, (size_t)n, &total)) s->failed = true;
    if (s->failed || !qn__str_reserve(s, total)) return false;
    va_start(args, fmt);
    qn__vformat(s->data + s->len, (size_t)n + 1, fmt, args);
    va_end(args);
    s->len = total;
    return true;
}

char *qn__str_take(qn_str *s, size_t *len)
{
    if (!qn__str_reserve(s, s->len)) { /* empty so far: the terminator needs memory too */
        qn__str_deinit(s);
        return NULL;
    }
    char *data = s->data;
    if (len != NULL) *len = s->len;
    *s = (qn_str){0};
    return data;
}

/* ---- quoting ---- */

/* Bytes of the UTF-8 character at p that is safe to show, or 0. Refused: overlong forms, surrogates, values above
 * U+10FFFF, C0 and C1 controls, line separators and the bidirectional marks that reorder what a terminal shows. */
static size_t printable_utf8(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80) return p[0] >= 0x20 && p[0] != 0x7f && p[0] != '"' && p[0] != '\'' && p[0] != '\\';
    const size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > n) return 0;
    uint32_t c = p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || c < 0xa0) return 0;
    if (c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
        return 0;
    return len;
}

const char *qn__str_quote(char *buf, size_t size, const char *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)text;
    if (size == 0) return buf;
    size_t at = 0, cut = 0; /* cut: the last place where "..." still fitted */
    for (size_t i = 0; i < n;) {
        const size_t len = printable_utf8(p + i, n - i);
        const size_t need = len != 0 ? len : 4;
        if (at + need >= size) {
            const size_t dots = size - 1 - cut < 3 ? size - 1 - cut : 3;
            memcpy(buf + cut, "...", dots);
            buf[cut + dots] = '\0';
            return buf;
        }
        if (len != 0) {
            memcpy(buf + at, p + i, len);
        } else {
            const char escaped[4] = {'\\', 'x', hex[p[i] >> 4], hex[p[i] & 15]};
            memcpy(buf + at, escaped, 4);
        }
        at += need;
        i += len != 0 ? len : 1;
        if (at + 3 < size) cut = at;
    }
    buf[at] = '\0';
    return buf;
}

const char *qn__str_bytes(char *buf, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    uint64_t whole = bytes, tenths = 0;
    while (whole >= 1024 && unit < 6) {
        unit++;
        const int shift = 10 * unit;
        const uint64_t one = UINT64_C(1) << shift;
        whole = bytes >> shift;
        tenths = ((bytes & (one - 1)) * 10 + one / 2) >> shift; /* at most 2^60 * 10 + 2^59: fits */
        if (tenths == 10) {
            whole++;
            tenths = 0;
        }
    }
    if (unit == 0) {
        snprintf(buf, size, "%llu B", (unsigned long long)whole);
    } else {
        snprintf(buf, size, "%llu.%llu %s", (unsigned long long)whole, (unsigned long long)tenths, units[unit]);
    }
    return buf;
}

/* ---- numbers ---- */

bool qn__parse_i64(const char *text, int64_t lo, int64_t hi, int64_t *out)
{
    const bool negative = *text == '-';
    if (*text == '-' || *text == '+') text++;
    if (*text == '\0') return false;
    int64_t v = 0; /* built downwards, because INT64_MIN has no positive twin */
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *text - '0', &v)) return false;
    }
    if (!negative && __builtin_sub_overflow(0, v, &v)) return false;
    if (v < lo || v > hi) return false;
    *out = v;
    return true;
}

static const char *skip_digits(const char *p, bool *any)
{
    for (; *p >= '0' && *p <= '9'; p++) *any = true;
    return p;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before the exponent. strtod alone takes blanks, hex and "inf".
 */
static bool is_decimal(const char *p)
{
    bool any = false;
    if (*p == '+' || *p == '-') p++;
    p = skip_digits(p, &any);
    if (*p == '.') p = skip_digits(p + 1, &any);
    if (!any) return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-') p++;
        any = false;
        p = skip_digits(p, &any);
    }
    return any && *p == '\0';
}

bool qn__parse_f64(const char *text, double lo, double hi, double *out)
{
    const locale_t c = c_locale();
    if (!is_decimal(text) || c == (locale_t)0) return false;
    const double v = strtod_l(text, NULL, c);
    if (!isfinite(v) || !(v >= lo && v <= hi)) return false;
    *out = v;
    return true;
}

uint64_t qn__hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* `*` any run, `?` one character. Linear with one level of back-tracking, which is enough for globs. */
bool qn__glob_match(const char *p, const char *s)
{
    const char *star = NULL, *from = NULL;
    while (*s) {
        if (*p == '*')
            star = p++, from = s;
        else if (*p == '?' || *p == *s)
            p++, s++;
        else if (star)
            p = star + 1, s = ++from;
        else
            return false;
    }
    while (*p == '*') p++;
    return *p == '\0';
}
