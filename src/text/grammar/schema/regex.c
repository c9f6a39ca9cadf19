/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/regex.c -- patterns of ECMA-262 as trees. Read as JSON schema asks: by code points, as with
 * the flag u, but lenient where engines without it are (an escaped character that needs none, a brace that repeats
 * nothing). What is not regular is refused. */
#include "base/str.h"
#include "text/grammar/schema/regex.h"
#include "text/utf8.h"

#include <string.h>

#define MAX_COUNT 1000000 /* in {m,n}; the number of states bounds them before */

typedef struct parser {
    qn_arena *arena;
    const char *s;
    size_t n, at;
    int depth;
    qn_status status;
    qn_error *err;
} parser;

static qn_status bad(parser *p, qn_status status, size_t at, const char *fmt, ...) QN_PRINTF(4, 5);
static qn_status bad(parser *p, qn_status status, size_t at, const char *fmt, ...)
{
    char text[120];
    size_t number = 1;
    va_list args;
    if (p->status != QN_OK) return p->status;
    for (size_t i = 0; i < at && i < p->n; i++) number += ((unsigned char)p->s[i] & 0xC0) != 0x80;
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    return p->status = qn__fail(p->err, status, __FILE__, __LINE__, "character %zu: %s", number, text);
}
#define BAD_FORMAT(p, at, ...)      bad((p), QN_STATUS_format, (at), __VA_ARGS__)
#define BAD_UNSUPPORTED(p, at, ...) bad((p), QN_STATUS_unsupported, (at), __VA_ARGS__)

static bool going(const parser *p) { return p->status == QN_OK; }
static char peek(const parser *p) { return p->at < p->n ? p->s[p->at] : '\0'; }
static bool ahead(const parser *p, const char *text)
{
    const size_t n = strlen(text);
    return p->n - p->at >= n && memcmp(p->s + p->at, text, n) == 0;
}

static void no_memory(parser *p)
{
    if (going(p)) p->status = QN_FAIL(p->err, nomem, "out of memory: a pattern of %zu bytes", p->n);
}

static void add(parser *p, qn_cp_ranges *r, uint32_t lo, uint32_t hi)
{
    if (!qn__ranges_add(p->arena, r, lo, hi)) no_memory(p);
}

static qn_rx *node(parser *p, qn_rx_kind kind)
{
    qn_rx *rx = qn__arena_alloc(p->arena, sizeof *rx);
    if (!rx) {
        no_memory(p);
        return NULL;
    }
    rx->kind = kind;
    return rx;
}

static void append(qn_rx *parent, qn_rx *child)
{
    if (!parent || !child) return;
    *(parent->last ? &parent->last->next : &parent->child) = child;
    parent->last = child;
}

/* ---- characters and classes ------------------------------------------------------------------------ */

static const uint32_t digit[][2] = {{'0', '9'}}, word[][2] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                      space[][2] = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                    {0x3000, 0x3000}, {0xFEFF, 0xFEFF}},
                      line_end[][2] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static void add_table(parser *p, qn_cp_ranges *r, const uint32_t (*table)[2], size_t n, bool negated)
{
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (!negated) add(p, r, table[i][0], table[i][1]);
        if (negated && table[i][0] > next) add(p, r, next, table[i][0] - 1);
        next = table[i][1] + 1;
    }
    if (negated) add(p, r, next, QN_MAX_CP);
}
#define ADD_TABLE(p, r, table, negated) add_table((p), (r), (table), sizeof(table) / sizeof(table)[0], (negated))

/* \d and its like, behind the backslash; false when it is none. */
static bool class_escape(parser *p, qn_cp_ranges *r)
{
    const char c = peek(p), small = c | 0x20;
    const bool negated = c < 'a';
    if (small == 'd')
        ADD_TABLE(p, r, digit, negated);
    else if (small == 'w')
        ADD_TABLE(p, r, word, negated);
    else if (small == 's')
        ADD_TABLE(p, r, space, negated);
    else
        return false;
    p->at++;
    return true;
}

static int32_t hex(parser *p, int digits)
{
    int32_t v = 0;
    const size_t begin = p->at;
    for (int i = 0; i < digits; i++, p->at++) {
        const char c = peek(p), l = c | 0x20;
        const int d = c >= '0' && c <= '9' ? c - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
        if (d < 0) {
            BAD_FORMAT(p, begin, "expected %d hexadecimal digits", digits);
            return 0;
        }
        v = v << 4 | d;
    }
    return v;
}

static uint32_t unicode_escape(parser *p, size_t begin)
{
    if (peek(p) == '{') {
        uint32_t cp = 0;
        size_t n = 0;
        for (p->at++; going(p) && peek(p) != '}'; n++) {
            if (n > 7) BAD_FORMAT(p, begin, "this is no character");
            cp = cp << 4 | (uint32_t)hex(p, 1);
        }
        p->at++;
        if (n == 0 || cp > QN_MAX_CP || (cp >= 0xD800 && cp < 0xE000)) BAD_FORMAT(p, begin, "this is no character");
        return cp;
    }
    uint32_t cp = (uint32_t)hex(p, 4);
    if (cp >= 0xD800 && cp < 0xDC00 && ahead(p, "\\u")) {
        p->at += 2;
        const uint32_t low = (uint32_t)hex(p, 4);
        if (low >= 0xDC00 && low < 0xE000) cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    }
    if (cp >= 0xD800 && cp < 0xE000) BAD_FORMAT(p, begin, "this is half a character");
    return cp;
}

/* One character behind a backslash. */
static uint32_t char_escape(parser *p, bool in_class)
{
    static const char from[] = "tnvfr", to[] = "\t\n\v\f\r";
    const size_t begin = p->at - 1;
    const char c = peek(p);
    const char *hit = c ? strchr(from, c) : NULL;
    uint32_t cp = 0;
    if (p->at >= p->n) {
        BAD_FORMAT(p, begin, "a backslash and nothing behind it");
        return 0;
    }
    if ((c & 0x80) != 0) {
        p->at += (size_t)qn__utf8_decode(p->s + p->at, p->n - p->at, &cp);
        return cp;
    }
    p->at++;
    if (hit) return (uint32_t)(unsigned char)to[hit - from];
    if (c == 'x') return (uint32_t)hex(p, 2);
    if (c == 'u') return unicode_escape(p, begin);
    if (c == '0' && !(peek(p) >= '0' && peek(p) <= '9')) return 0;
    if (c == 'b' && in_class) return '\b';
    if (c == 'c' && ((peek(p) | 0x20) >= 'a' && (peek(p) | 0x20) <= 'z')) return (uint32_t)(p->s[p->at++] & 31);
    if (c >= '0' && c <= '9')
        BAD_UNSUPPORTED(p, begin, "a back-reference is not regular");
    else if (c == 'b' || c == 'B')
        BAD_UNSUPPORTED(p, begin, "\\%c is not supported", c);
    else if (c == 'k')
        BAD_UNSUPPORTED(p, begin, "a back-reference is not regular");
    else if (c == 'p' || c == 'P')
        BAD_UNSUPPORTED(p, begin, "\\%c{..} is not supported", c);
    else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        BAD_FORMAT(p, begin, "an escape that is not known");
    return (uint32_t)c;
}

static uint32_t plain_char(parser *p)
{
    uint32_t cp = 0;
    p->at += (size_t)qn__utf8_decode(p->s + p->at, p->n - p->at, &cp);
    return cp;
}

/* An end of a range, or a class in r: then false. */
static bool class_atom(parser *p, qn_cp_ranges *r, uint32_t *cp)
{
    if (peek(p) != '\\') return *cp = plain_char(p), true;
    p->at++;
    if (class_escape(p, r)) return false;
    *cp = char_escape(p, true);
    return true;
}

static qn_rx *class_of(parser *p)
{
    qn_rx *rx = node(p, QN_RX_chars);
    const size_t begin = p->at++;
    const bool negated = peek(p) == '^';
    if (negated) p->at++;
    if (!rx) return NULL;
    while (going(p) && peek(p) != ']') {
        const size_t at = p->at;
        uint32_t lo = 0, hi = 0;
        if (p->at >= p->n) {
            BAD_FORMAT(p, begin, "this class does not end");
            return rx;
        }
        const bool single = class_atom(p, &rx->chars, &lo);
        if (peek(p) == '-' && p->at + 1 < p->n && p->s[p->at + 1] != ']') {
            p->at++;
            const bool other = class_atom(p, &rx->chars, &hi);
            if (single && other) {
                if (hi < lo) BAD_FORMAT(p, at, "this range ends before it begins");
                if (going(p)) add(p, &rx->chars, lo, hi);
                continue;
            }
            /* ECMA-262, annex B: beside a class the hyphen is itself */
            add(p, &rx->chars, '-', '-');
            if (single) add(p, &rx->chars, lo, lo);
            if (other) add(p, &rx->chars, hi, hi);
        } else if (single) {
            add(p, &rx->chars, lo, lo);
        }
    }
    p->at++;
    if (!going(p)) return rx;
    qn__ranges_order(&rx->chars);
    if (negated && !qn__ranges_negate(p->arena, &rx->chars)) no_memory(p);
    return rx;
}

static qn_rx *one_char(parser *p, uint32_t cp)
{
    qn_rx *rx = node(p, QN_RX_chars);
    if (rx) add(p, &rx->chars, cp, cp);
    return rx;
}

/* ---- atoms and what repeats them --------------------------------------------------------------------- */

static qn_rx *alternatives(parser *p);

static qn_rx *group(parser *p)
{
    const size_t begin = p->at++;
    if (++p->depth > QN_REGEX_MAX_NESTED) {
        bad(p, QN_STATUS_limit, begin, "groups nested more than %d deep", QN_REGEX_MAX_NESTED);
        return NULL;
    }
    if (ahead(p, "?:")) {
        p->at += 2;
    } else if (ahead(p, "?=") || ahead(p, "?!") || ahead(p, "?<=") || ahead(p, "?<!")) {
        BAD_UNSUPPORTED(p, begin, "looking ahead or behind is not supported");
    } else if (ahead(p, "?<")) {
        while (p->at < p->n && peek(p) != '>' && peek(p) != ')') p->at++;
        if (peek(p) != '>') BAD_FORMAT(p, begin, "the name of this group does not end");
        p->at++;
    } else if (peek(p) == '?') {
        BAD_FORMAT(p, begin, "a kind of group that is not known");
    }
    qn_rx *rx = going(p) ? alternatives(p) : NULL;
    if (going(p) && peek(p) != ')') BAD_FORMAT(p, begin, "this group does not end");
    p->at++;
    p->depth--;
    return rx;
}

static int32_t number(parser *p)
{
    int32_t v = 0;
    const size_t begin = p->at;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++)
        if (v <= MAX_COUNT) v = 10 * v + (p->s[p->at] - '0');
    return p->at == begin ? -1 : v;
}

/* What stands behind an atom; false, and nothing read, when it repeats nothing. */
static bool repetition(parser *p, int32_t *min, int32_t *max)
{
    const size_t begin = p->at;
    const char c = peek(p);
    if (c == '*' || c == '+' || c == '?') {
        *min = c == '+';
        *max = c == '?' ? 1 : -1;
        p->at++;
    } else if (c == '{') {
        p->at++;
        *min = number(p);
        *max = *min;
        if (*min >= 0 && peek(p) == ',') {
            p->at++;
            *max = number(p);
        }
        if (*min < 0 || peek(p) != '}') {
            p->at = begin;
            return false;
        }
        p->at++;
        if (*min > MAX_COUNT || *max > MAX_COUNT)
            bad(p, QN_STATUS_limit, begin, "more than %d repetitions", MAX_COUNT);
        else if (*max >= 0 && *max < *min)
            BAD_FORMAT(p, begin, "at most %d of at least %d", *max, *min);
    } else {
        return false;
    }
    if (peek(p) == '?') p->at++; /* lazy: the same strings */
    return true;
}

static qn_rx *atom(parser *p)
{
    const char c = peek(p);
    const size_t begin = p->at;
    int32_t min, max;
    switch (c) {
    case '(': return group(p);
    case '[': return class_of(p);
    case '^':
    case '$': p->at++; return node(p, c == '^' ? QN_RX_begin : QN_RX_end);
    case '.': {
        qn_rx *rx = node(p, QN_RX_chars);
        p->at++;
        if (rx) ADD_TABLE(p, &rx->chars, line_end, true);
        return rx;
    }
    case '\\': {
        p->at++;
        qn_rx *rx = node(p, QN_RX_chars);
        if (!rx || class_escape(p, &rx->chars)) {
            if (rx) qn__ranges_order(&rx->chars);
            return rx;
        }
        return one_char(p, char_escape(p, false));
    }
    default: break;
    }
    if (repetition(p, &min, &max)) {
        BAD_FORMAT(p, begin, "nothing is there to be repeated");
        return NULL;
    }
    return one_char(p, plain_char(p));
}

static qn_rx *sequence(parser *p)
{
    qn_rx *all = node(p, QN_RX_all);
    while (going(p) && p->at < p->n && peek(p) != '|' && peek(p) != ')') {
        const size_t begin = p->at;
        int32_t min, max;
        qn_rx *rx = atom(p);
        const size_t behind = p->at;
        if (going(p) && repetition(p, &min, &max)) {
            if (rx->kind == QN_RX_begin || rx->kind == QN_RX_end)
                BAD_FORMAT(p, behind, "%c cannot be repeated", p->s[begin]);
            qn_rx *repeat = node(p, QN_RX_repeat);
            if (repeat) {
                repeat->min = min;
                repeat->max = max;
            }
            append(repeat, rx);
            rx = repeat;
        }
        append(all, rx);
    }
    return all;
}

static qn_rx *alternatives(parser *p)
{
    qn_rx *any = node(p, QN_RX_any_of);
    append(any, sequence(p));
    while (going(p) && peek(p) == '|') {
        p->at++;
        append(any, sequence(p));
    }
    return any;
}

qn_status qn__regex_compile(qn_arena *arena, const char *pattern, size_t n, qn_nfa *out, qn_error *err)
{
    parser p = {.arena = arena, .s = pattern, .n = n, .err = err};
    const qn_rx *rx = alternatives(&p);
    if (going(&p) && p.at < p.n) BAD_FORMAT(&p, p.at, "found '%c', expected the end", peek(&p));
    return going(&p) ? qn__rx_to_nfa(arena, rx, out, err) : p.status;
}
