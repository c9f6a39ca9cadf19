/* SPDX-License-Identifier: MIT */
/* src/format/json.c -- the JSON walker. Position only moves forward, each byte is looked at a bounded number of times,
 * and the only recursion, skipping, stops at a fixed depth. */
#include "format/json.h"
#include "base/str.h"
#include <string.h>

void qn__json_init(qn_json *j, const char *text, size_t size, size_t base, const char *label, qn_error *err)
{
    *j = (qn_json){.text = text, .size = size, .base = base, .label = label, .err = err, .subject = "header"};
}

qn_status qn__json_unexpected(qn_json *j, const char *expected)
{
    char quoted[16], found[32] = "the end of the text";
    const size_t left = j->size - j->pos;
    if (left > 0) {
        /* A whole character, or the quoting would show its first byte as broken. */
        const uint8_t lead = (uint8_t)j->text[j->pos];
        const size_t n = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        qn__str_quote(quoted, sizeof quoted, j->text + j->pos, n < left ? n : left);
        found[0] = '\'';
        memcpy(found + 1, quoted, strlen(quoted) + 1);
        strcat(found, "'");
    }
    return QN_JSON_BAD(j, format, j->base + j->pos, "found %s, expected %s", found, expected);
}

static void skip_space(qn_json *j)
{
    for (; j->pos < j->size; j->pos++) {
        const char c = j->text[j->pos];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
    }
}

static bool take(qn_json *j, char c)
{
    skip_space(j);
    if (j->pos >= j->size || j->text[j->pos] != c) return false;
    j->pos++;
    return true;
}

qn_status qn__json_open(qn_json *j, char bracket)
{
    if (!take(j, bracket)) return qn__json_unexpected(j, bracket == '{' ? "an object" : "an array");
    j->first = true;
    return QN_OK;
}

qn_status qn__json_next(qn_json *j, char bracket, bool *more)
{
    const bool first = j->first;
    j->first = false; /* true again only behind an opening bracket; a container that ends is not its parent's first */
    *more = !take(j, bracket == '{' ? '}' : ']');
    if (!*more || first || take(j, ',')) return QN_OK;
    return qn__json_unexpected(j,
                               bracket == '{' ? "a comma or the end of the object" : "a comma or the end of the array");
}

/* ---- strings ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The value of uXXXX at p, or -1. */
static int32_t code_unit(const char *p, size_t left)
{
    int32_t value = 0;
    if (left < 5 || p[0] != 'u') return -1;
    for (int i = 1; i < 5; i++) {
        const int digit = hex_digit(p[i]);
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static const char escapes[] = "\"\\/bfnrt", escaped[] = "\"\\/\b\f\n\r\t";

/* Length of the escape behind a backslash at p; 0 when it is none. A high surrogate must have its low one behind it. */
static size_t escape_length(const char *p, size_t left, uint32_t *cp)
{
    if (left == 0) return 0;
    const char *simple = p[0] ? strchr(escapes, p[0]) : NULL;
    if (simple) {
        *cp = (uint8_t)escaped[simple - escapes];
        return 1;
    }
    const int32_t unit = code_unit(p, left);
    if (unit < 0 || (unit >= 0xdc00 && unit <= 0xdfff)) return 0;
    *cp = (uint32_t)unit;
    if (unit < 0xd800 || unit > 0xdfff) return 5;
    const int32_t low = left > 6 && p[5] == '\\' ? code_unit(p + 6, left - 6) : -1;
    if (low < 0xdc00 || low > 0xdfff) return 0;
    *cp = 0x10000 + ((uint32_t)(unit - 0xd800) << 10 | (uint32_t)(low - 0xdc00));
    return 11;
}

qn_status qn__json_string(qn_json *j, qn_json_str *out)
{
    if (!take(j, '"')) return qn__json_unexpected(j, "a string");
    const size_t start = j->pos;
    for (; j->pos < j->size; j->pos++) {
        const char c = j->text[j->pos];
        uint32_t cp;
        if (c == '"') {
            *out = (qn_json_str){j->text + start, j->pos - start, j->base + start};
            j->pos++;
            return QN_OK;
        }
        if ((uint8_t)c < 0x20) return qn__json_unexpected(j, "no control character in a string");
        if (c != '\\') continue;
        const size_t n = escape_length(j->text + j->pos + 1, j->size - j->pos - 1, &cp);
        if (n == 0) return qn__json_unexpected(j, "a valid escape behind it");
        j->pos += n;
    }
    return qn__json_unexpected(j, "the end of a string");
}

static size_t put_utf8(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    const size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)(lead[n] | cp);
    return n;
}

size_t qn__json_decode(const qn_json_str *s, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        uint32_t cp;
        if (s->raw[i] != '\\') {
            out[n++] = s->raw[i];
            continue;
        }
        i += escape_length(s->raw + i + 1, s->n - i - 1, &cp);
        n += put_utf8(cp, out + n);
    }
    return n;
}

char *qn__json_take(qn_arena *arena, const qn_json_str *s, size_t *len)
{
    char *text = qn__arena_alloc(arena, s->n + 1);
    if (!text) return NULL;
    const size_t n = qn__json_decode(s, text);
    text[n] = '\0';
    if (len) *len = n;
    return text;
}

bool qn__json_equals(const qn_json_str *s, const char *text)
{
    char buf[192];
    const size_t n = strlen(text);
    if (s->n > sizeof buf || s->n < n) return false; /* an escape takes 6 bytes at most for each of ours */
    return qn__json_decode(s, buf) == n && memcmp(buf, text, n) == 0;
}

qn_status qn__json_key(qn_json *j, qn_json_str *key)
{
    QN_TRY(qn__json_string(j, key));
    return take(j, ':') ? QN_OK : qn__json_unexpected(j, "a colon");
}

/* ---- numbers and what is skipped ---- */

static size_t digits(qn_json *j)
{
    const size_t start = j->pos;
    while (j->pos < j->size && j->text[j->pos] >= '0' && j->text[j->pos] <= '9') j->pos++;
    return j->pos - start;
}

/* No number goes on with these behind its digits; saying so here gives a better message than a missing comma. */
static bool goes_on(const qn_json *j)
{
    return j->pos < j->size && (j->text[j->pos] == '.' || j->text[j->pos] == 'e' || j->text[j->pos] == 'E');
}

qn_status qn__json_u64(qn_json *j, uint64_t *out)
{
    uint64_t value = 0;
    skip_space(j);
    const size_t start = j->pos, n = digits(j);
    if (n == 0 || goes_on(j) || (n > 1 && j->text[start] == '0')) {
        if (n > 0 && !goes_on(j)) j->pos = start;
        return qn__json_unexpected(j, "an integer that is not negative");
    }
    for (size_t i = start; i < j->pos; i++) {
        const uint64_t digit = (uint64_t)(j->text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            j->pos = start;
            return qn__json_unexpected(j, "an integer below 2^64");
        }
        value = 10 * value + digit;
    }
    *out = value;
    return QN_OK;
}

static qn_status skip_number(qn_json *j)
{
    if (j->text[j->pos] == '-') j->pos++;
    const size_t start = j->pos;
    if (digits(j) == 0 || (j->pos - start > 1 && j->text[start] == '0')) return qn__json_unexpected(j, "a number");
    if (j->pos < j->size && j->text[j->pos] == '.') {
        j->pos++;
        if (digits(j) == 0) return qn__json_unexpected(j, "the digits of a fraction");
    }
    if (goes_on(j)) {
        j->pos++;
        if (j->pos < j->size && (j->text[j->pos] == '+' || j->text[j->pos] == '-')) j->pos++;
        if (digits(j) == 0) return qn__json_unexpected(j, "the digits of an exponent");
    }
    return QN_OK;
}

static qn_status skip_word(qn_json *j)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen(words[i]);
        if (j->size - j->pos < n || memcmp(j->text + j->pos, words[i], n) != 0) continue;
        j->pos += n;
        return QN_OK;
    }
    return qn__json_unexpected(j, "a value");
}

static qn_status skip_value(qn_json *j, int depth)
{
    qn_json_str ignored;
    bool more;
    skip_space(j);
    const char c = j->pos < j->size ? j->text[j->pos] : 0;
    if (c == '"') return qn__json_string(j, &ignored);
    if (c == '-' || (c >= '0' && c <= '9')) return skip_number(j);
    if (c != '{' && c != '[') return skip_word(j);
    if (depth == QN_JSON_MAX_DEPTH)
        return QN_JSON_BAD(j, limit, j->base + j->pos, "found values inside each other, expected at most %d levels",
                           QN_JSON_MAX_DEPTH);
    QN_TRY(qn__json_open(j, c));
    for (;;) {
        QN_TRY(qn__json_next(j, c, &more));
        if (!more) return QN_OK;
        if (c == '{') QN_TRY(qn__json_key(j, &ignored));
        QN_TRY(skip_value(j, depth + 1));
    }
}

qn_status qn__json_skip(qn_json *j) { return skip_value(j, 0); }

qn_status qn__json_end(qn_json *j)
{
    skip_space(j);
    return j->pos == j->size ? QN_OK : qn__json_unexpected(j, "nothing behind the object");
}
